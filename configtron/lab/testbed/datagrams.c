// SPDX-License-Identifier: MIT
/*
 * The sockets of flows of datagrams, both ends of each: what a packet costs is system calls, and these are few.
 *
 *     wait_for(flows, count, also, until_ns, &now_ns)     echo what arrives until an acknowledgement or the moment comes
 *     send_packets(flow, first, count, at_s)              packets `first` and those after it, which leave now
 *
 * `datagrams.py` loads this file as a library and calls it. In User-Mode Linux a system call takes 15 us. An
 * acknowledgement and the packet that it allows cost two, a wait and the packet's own: the kernel writes acknowledgements
 * and their moments into a ring of memory (packet(7)), so neither they nor the clock are read by a call. Datagrams that
 * arrive are echoed here where echo.bpf.c does not do it. Nothing is joined to larger packets (GSO, GRO): each packet is
 * one on the wire and one for a tap.
 *
 * Fails as   a datagram that a socket does not take is lost like any other.
 */
#define _GNU_SOURCE
#include <linux/if_packet.h>
#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* as many packets as one call takes; flows of one loop, as flows.MOST_FLOWS has them */
#define BATCH 64
#define MOST_FLOWS 32
#define HEADER_BYTES 12
/* a packet of 1 500 bytes without IP's and UDP's headers */
#define PAYLOAD_BYTES 1472
#define SECOND_NS 1000000000ll

/* IP's header without options, and UDP's */
#define IP_BYTES 28

/* datagrams.py has the same */
struct flow {
	int sender, receiver, ring;
	unsigned int frame_bytes, frames, next;
	char *memory;
	int64_t offset; /* of the clock that the ring has, to ours */
	int64_t sent; /* packets */
	int64_t count; /* acknowledgements of the last wait: */
	int64_t number[BATCH];
	int64_t at_ns[BATCH];
	double sent_at[BATCH];
};

static char headers[BATCH][HEADER_BYTES];
static char padding[PAYLOAD_BYTES - HEADER_BYTES];

static int64_t now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * SECOND_NS + time.tv_nsec;
}

/* A header has the packet's number modulo 2^32 and the moment when it left, both in the network's order of bytes. */
static void write_header(char *header, int64_t number, double at)
{
	uint32_t word = __builtin_bswap32((uint32_t)number);
	uint64_t bits;

	memcpy(&bits, &at, sizeof(bits));
	bits = __builtin_bswap64(bits);
	memcpy(header, &word, sizeof(word));
	memcpy(header + sizeof(word), &bits, sizeof(bits));
}

/* Its number: the newest below `sent` that has these 32 bits. */
static int64_t read_header(const char *header, int64_t sent, double *at)
{
	uint32_t word;
	uint64_t bits;

	memcpy(&word, header, sizeof(word));
	memcpy(&bits, header + sizeof(word), sizeof(bits));
	bits = __builtin_bswap64(bits);
	memcpy(at, &bits, sizeof(bits));
	return sent - (uint32_t)((uint32_t)sent - __builtin_bswap32(word));
}

/* Read the first bytes of up to BATCH datagrams; return how many there were. */
static int receive(int socket)
{
	struct iovec parts[BATCH];
	struct mmsghdr messages[BATCH];
	int got;

	memset(messages, 0, sizeof(messages));
	for (int i = 0; i < BATCH; i++) {
		parts[i] = (struct iovec){ headers[i], HEADER_BYTES };
		messages[i].msg_hdr.msg_iov = &parts[i];
		messages[i].msg_hdr.msg_iovlen = 1;
	}
	got = recvmmsg(socket, messages, BATCH, MSG_DONTWAIT, NULL);
	return got < 0 ? 0 : got;
}

/* Send `count` datagrams: a header each, and padding behind it. */
static void transmit(int socket, int count, size_t padding_bytes)
{
	struct iovec parts[BATCH][2];
	struct mmsghdr messages[BATCH];

	memset(messages, 0, count * sizeof(*messages));
	for (int i = 0; i < count; i++) {
		parts[i][0] = (struct iovec){ headers[i], HEADER_BYTES };
		parts[i][1] = (struct iovec){ padding, padding_bytes };
		messages[i].msg_hdr.msg_iov = parts[i];
		messages[i].msg_hdr.msg_iovlen = padding_bytes ? 2 : 1;
	}
	for (int done = 0; done < count;) {
		int taken = sendmmsg(socket, messages + done, count - done, MSG_DONTWAIT);

		/* the one that is not taken is lost */
		done += taken > 0 ? taken : 1;
	}
}

static void echo(int receiver)
{
	int got = receive(receiver);

	if (got)
		transmit(receiver, got, 0);
}

/* Take over what is in the ring, in order. */
static int take_acknowledgements(struct flow *flow)
{
	while (flow->count < BATCH) {
		char *frame = flow->memory + (size_t)flow->next * flow->frame_bytes;
		struct tpacket2_hdr *head = (void *)frame;
		int64_t i = flow->count;

		if (!(__atomic_load_n(&head->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER))
			break;
		flow->at_ns[i] = head->tp_sec * SECOND_NS + head->tp_nsec - flow->offset;
		flow->number[i] =
			read_header(frame + head->tp_net + IP_BYTES, flow->sent, &flow->sent_at[i]);
		flow->count++;
		flow->next = (flow->next + 1) % flow->frames;
		__atomic_store_n(&head->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
	}
	return flow->count > 0;
}

static int64_t newest(struct flow **flows, int count, int64_t now)
{
	for (int i = 0; i < count; i++)
		if (flows[i]->count && flows[i]->at_ns[flows[i]->count - 1] > now)
			now = flows[i]->at_ns[flows[i]->count - 1];
	return now;
}

/*
 * Echo what arrives, until there are acknowledgements, `also` can be read (-1: nothing else), or the moment has come.
 * Return 1 if `also` can be read. A flow's count is that of its acknowledgements. `now` becomes the moment when the newest of
 * these arrived, or the clock's.
 */
int wait_for(struct flow **flows, int count, int also, int64_t until, int64_t *now)
{
	struct pollfd ready[2 * MOST_FLOWS + 1];
	struct timespec left;
	int woken, found = 0;

	for (int i = 0; i < count; i++) {
		ready[2 * i] = (struct pollfd){ flows[i]->receiver, POLLIN, 0 };
		ready[2 * i + 1] = (struct pollfd){ flows[i]->ring, POLLIN, 0 };
		flows[i]->count = 0;
	}
	ready[2 * count] = (struct pollfd){ also, POLLIN, 0 };
	until = until > *now ? until - *now : 0;
	left = (struct timespec){ until / SECOND_NS, until % SECOND_NS };
	do {
		/* the C library's ppoll() would keep the time that is left to itself */
		woken = syscall(SYS_ppoll, ready, 2 * count + 1, &left, NULL, 0);
		for (int i = 0; woken > 0 && i < count; i++) {
			if (ready[2 * i].revents)
				echo(flows[i]->receiver);
			if (ready[2 * i + 1].revents)
				found |= take_acknowledgements(flows[i]);
		}
	} while (woken > 0 && !found && !ready[2 * count].revents);
	*now = found ? newest(flows, count, *now) : now_ns();
	return woken > 0 && ready[2 * count].revents;
}

void send_packets(struct flow *flow, int64_t first, int64_t count, double at)
{
	while (count) {
		int some = count < BATCH ? count : BATCH;

		for (int i = 0; i < some; i++)
			write_header(headers[i], first + i, at);
		transmit(flow->sender, some, sizeof(padding));
		first += some;
		count -= some;
		flow->sent = first;
	}
}
