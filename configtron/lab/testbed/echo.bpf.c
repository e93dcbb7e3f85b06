/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * The receiver of datagrams, where packets enter the client: a datagram's first bytes go back at once, no program wakes.
 *
 *   echo_frames    on a device with Ethernet headers
 *   echo_packets   on one without, as the player's
 *
 * Datagrams from a port of ours to the same port of the client are flows' (datagrams.py); all else passes as it is. A
 * tap sees the packet before this program does.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/pkt_cls.h>
#include <linux/udp.h>
#include <stddef.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

/* datagrams.c and datagrams.py have the same */
#define HEADER_BYTES 12
#define FIRST_PORT 7000
#define LAST_PORT 7031
#define BETWEEN 1000

struct headers {
	struct iphdr ip;
	struct udphdr udp;
} __attribute__((packed));

#define ECHO_BYTES (sizeof(struct headers) + HEADER_BYTES)

static __always_inline int is_flow(const struct headers *packet)
{
	__u16 port = bpf_ntohs(packet->udp.source);

	return packet->ip.version == 4 && packet->ip.ihl == 5 &&
	       packet->ip.protocol == IPPROTO_UDP && port >= FIRST_PORT && port <= LAST_PORT &&
	       bpf_ntohs(packet->udp.dest) == port + BETWEEN;
}

static __always_inline int echo(struct __sk_buff *skb, __u32 frame_bytes)
{
	struct headers packet;
	__u16 length = bpf_htons(ECHO_BYTES), whole;
	__u32 from;

	if (bpf_skb_load_bytes(skb, frame_bytes, &packet, sizeof(packet)) || !is_flow(&packet) ||
	    bpf_skb_change_tail(skb, frame_bytes + ECHO_BYTES, 0))
		return TC_ACT_OK;
	whole = packet.ip.tot_len;
	from = packet.ip.saddr;
	packet.ip.saddr = packet.ip.daddr;
	packet.ip.daddr = from;
	packet.ip.tot_len = length;
	packet.udp.len = bpf_htons(sizeof(packet.udp) + HEADER_BYTES);
	packet.udp.dest = packet.udp.source;
	packet.udp.source = bpf_htons(bpf_ntohs(packet.udp.dest) + BETWEEN);
	/* 0: none */
	packet.udp.check = 0;
	bpf_skb_store_bytes(skb, frame_bytes, &packet, sizeof(packet), 0);
	bpf_l3_csum_replace(skb, frame_bytes + offsetof(struct iphdr, check), whole, length,
			    sizeof(length));
	if (frame_bytes) {
		struct ethhdr ether, back;

		bpf_skb_load_bytes(skb, 0, &ether, sizeof(ether));
		back = ether;
		__builtin_memcpy(back.h_dest, ether.h_source, ETH_ALEN);
		__builtin_memcpy(back.h_source, ether.h_dest, ETH_ALEN);
		bpf_skb_store_bytes(skb, 0, &back, sizeof(back), 0);
	}
	return bpf_redirect(skb->ifindex, 0);
}

SEC("tc")
int echo_frames(struct __sk_buff *skb)
{
	return echo(skb, ETH_HLEN);
}

SEC("tc")
int echo_packets(struct __sk_buff *skb)
{
	return echo(skb, 0);
}

char _license[] SEC("license") = "Dual BSD/GPL";
