/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * The laboratory's middleboxes: what stands between a client and a server address, and is neither.
 *
 *   to_server, from_server  where packets enter and leave a pool's link: by the server's address, a rule says what is
 *                           dropped, doubled, delayed or written over
 *   balance, unbalance      where packets leave and enter a vantage's link: connections to one address, chosen by a
 *                           hash of their addresses and ports, are led to another; its answers come back as the first's
 *
 * Addresses lie in the maps as IPv6 does it (::ffff:a.b.c.d). A packet that cannot be read passes as it is. A delay is a
 * departure time on the packet; the fq queue on the pool's link keeps it.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <linux/tcp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define TCP_OPTION_MSS 2
#define TCP_OPTION_MSS_BYTES 4
#define MOST_OPTION_WORDS 10
#define NS_PER_MS 1000000ULL
/* On the second copy of a SYN-ACK, while it passes through from_server itself. */
#define MARK_COPY 0x0b0c
#define PER_MILLE 1000

enum drop {
	DROP_SYN = 1,
	DROP_ACK = 2,
	DROP_REQUEST = 4
};

struct address {
	__u32 word[4];
};

struct rule {
	__u32 drop; /* enum drop: what does not reach the server; DROP_ACK is everything but SYNs */
	__u32 loss_per_mille; /* lost by chance, each way */
	__u32 late_per_mille; /* of the server's packets, held back by chance for late_ms */
	__u32 late_ms;
	__u32 copy_ms; /* a second SYN-ACK follows after so long; 0: none */
	__u32 step_ms; /* the n-th SYN-ACK leaves n times so long after the first; 0: when it comes */
	__u16 mss_least; /* the client's MSS is raised to this, and lowered to that; 0: not */
	__u16 mss_most;
	__u16 rewrite; /* whether the SYN-ACK's next three are written over */
	__u16 window;
	__u16 ttl; /* 0: as it is */
	__u16 rotate; /* the MSS option moves behind the others */
};

struct flow {
	struct address client;
	struct address server;
	__u16 client_port;
	__u16 server_port;
};

struct progress {
	__u64 first_ns;
	__u32 count;
	__u32 number; /* the SYN-ACK's own: another one begins a new series */
	__u32 asked; /* a SYN came: the next SYN-ACK answers it, and is no repeat */
	__u32 pad;
};

struct second_backend {
	struct address address;
	__u32 percent;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct address);
	__type(value, struct rule);
} rules SEC(".maps");

/* The SYN-ACKs so far of each connection whose rule has a step. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct flow);
	__type(value, struct progress);
} steps SEC(".maps");

/* Asked address -> where some of its connections go, and back. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct address);
	__type(value, struct second_backend);
} second_backends SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct address);
	__type(value, struct address);
} asked SEC(".maps");

struct packet {
	struct address from;
	struct address to;
	struct tcphdr *tcp;
	__u32 tcp_at; /* from the frame's start */
	__u32 payload_bytes;
	__u32 v6;
};

static __always_inline void map_v4(struct address *wide, __u32 narrow)
{
	wide->word[0] = 0;
	wide->word[1] = 0;
	wide->word[2] = bpf_htonl(0xffff);
	wide->word[3] = narrow;
}

/* The TCP packet in a frame, or -1. IPv4 options and IPv6 extension headers do not occur in the laboratory. */
static __always_inline int read_packet(struct __sk_buff *skb, struct packet *packet)
{
	void *data, *end;
	struct ethhdr *ether;
	__u32 total;

	if (bpf_skb_pull_data(skb, skb->len < 128 ? skb->len : 128))
		return -1;
	data = (void *)(long)skb->data;
	end = (void *)(long)skb->data_end;
	ether = data;
	if ((void *)(ether + 1) > end)
		return -1;
	if (ether->h_proto == bpf_htons(ETH_P_IP)) {
		struct iphdr *ip = (void *)(ether + 1);

		if ((void *)(ip + 1) > end || ip->ihl != 5 || ip->protocol != IPPROTO_TCP)
			return -1;
		map_v4(&packet->from, ip->saddr);
		map_v4(&packet->to, ip->daddr);
		packet->v6 = 0;
		packet->tcp_at = sizeof(*ether) + sizeof(*ip);
		total = bpf_ntohs(ip->tot_len) - sizeof(*ip);
	} else if (ether->h_proto == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr *ip = (void *)(ether + 1);

		if ((void *)(ip + 1) > end || ip->nexthdr != IPPROTO_TCP)
			return -1;
		__builtin_memcpy(&packet->from, &ip->saddr, sizeof(packet->from));
		__builtin_memcpy(&packet->to, &ip->daddr, sizeof(packet->to));
		packet->v6 = 1;
		packet->tcp_at = sizeof(*ether) + sizeof(*ip);
		total = bpf_ntohs(ip->payload_len);
	} else {
		return -1;
	}
	packet->tcp = data + packet->tcp_at;
	if ((void *)(packet->tcp + 1) > end)
		return -1;
	packet->payload_bytes = total - packet->tcp->doff * 4;
	return 0;
}

static __always_inline struct flow flow_of(struct address *client, struct address *server,
					   __u16 client_port, __u16 server_port)
{
	struct flow flow = { .client = *client, .server = *server };

	flow.client_port = client_port;
	flow.server_port = server_port;
	return flow;
}

static __always_inline int by_chance(__u32 per_mille)
{
	return per_mille && bpf_get_prandom_u32() % PER_MILLE < per_mille;
}

/* Every server of the laboratory announces its MSS first, and so do its clients' SYNs. */
static __always_inline void bound_mss(struct __sk_buff *skb, struct packet *packet,
				      struct rule *rule)
{
	__u32 at = packet->tcp_at + sizeof(struct tcphdr);
	__u8 option[TCP_OPTION_MSS_BYTES];
	__u16 old, fresh, wanted;

	if (bpf_skb_load_bytes(skb, at, option, sizeof(option)) || option[0] != TCP_OPTION_MSS)
		return;
	wanted = option[2] << 8 | option[3];
	if (rule->mss_least && wanted < rule->mss_least)
		wanted = rule->mss_least;
	if (rule->mss_most && wanted > rule->mss_most)
		wanted = rule->mss_most;
	__builtin_memcpy(&old, option + 2, sizeof(old));
	fresh = bpf_htons(wanted);
	if (fresh == old)
		return;
	bpf_skb_store_bytes(skb, at + 2, &fresh, sizeof(fresh), 0);
	bpf_l4_csum_replace(skb, packet->tcp_at + __builtin_offsetof(struct tcphdr, check), old,
			    fresh, sizeof(fresh));
}

SEC("tc")
int to_server(struct __sk_buff *skb)
{
	struct packet packet;
	struct rule *rule;

	if (read_packet(skb, &packet))
		return TC_ACT_OK;
	rule = bpf_map_lookup_elem(&rules, &packet.to);
	if (!rule)
		return TC_ACT_OK;
	if (packet.tcp->syn) {
		if (rule->drop & DROP_SYN)
			return TC_ACT_SHOT;
	} else if (rule->drop & DROP_ACK || (rule->drop & DROP_REQUEST && packet.payload_bytes)) {
		return TC_ACT_SHOT;
	}
	if (by_chance(rule->loss_per_mille))
		return TC_ACT_SHOT;
	if (packet.tcp->syn && rule->step_ms) {
		struct flow flow =
			flow_of(&packet.from, &packet.to, packet.tcp->source, packet.tcp->dest);
		struct progress *seen = bpf_map_lookup_elem(&steps, &flow);

		if (seen)
			seen->asked = 1;
	}
	if (packet.tcp->syn)
		bound_mss(skb, &packet, rule);
	return TC_ACT_OK;
}

/* Moves the first option word behind the others: a sum of 16-bit words does not mind. */
static __always_inline void rotate_options(struct __sk_buff *skb, struct packet *packet)
{
	__u32 at = packet->tcp_at + sizeof(struct tcphdr);
	__u32 words = packet->tcp->doff - sizeof(struct tcphdr) / 4, first, next, i;

	if (words < 2 || words > MOST_OPTION_WORDS ||
	    bpf_skb_load_bytes(skb, at, &first, sizeof(first)))
		return;
	for (i = 1; i < MOST_OPTION_WORDS && i < words; i++) {
		if (bpf_skb_load_bytes(skb, at + 4 * i, &next, sizeof(next)))
			return;
		bpf_skb_store_bytes(skb, at + 4 * (i - 1), &next, sizeof(next), 0);
	}
	bpf_skb_store_bytes(skb, at + 4 * (i - 1), &first, sizeof(first), 0);
}

static __always_inline void rewrite_syn_ack(struct __sk_buff *skb, struct packet *packet,
					    struct rule *rule)
{
	__u32 tcp_at = packet->tcp_at, v6 = packet->v6;
	__u16 old = packet->tcp->window, fresh = bpf_htons(rule->window);

	if (rule->rotate)
		rotate_options(skb, packet);
	bpf_skb_store_bytes(skb, tcp_at + __builtin_offsetof(struct tcphdr, window), &fresh,
			    sizeof(fresh), 0);
	bpf_l4_csum_replace(skb, tcp_at + __builtin_offsetof(struct tcphdr, check), old, fresh,
			    sizeof(fresh));
	if (!rule->ttl)
		return;
	if (v6) {
		__u8 hops = rule->ttl;

		bpf_skb_store_bytes(skb,
				    sizeof(struct ethhdr) +
					    __builtin_offsetof(struct ipv6hdr, hop_limit),
				    &hops, 1, 0);
	} else {
		__u32 at = sizeof(struct ethhdr) + __builtin_offsetof(struct iphdr, ttl);
		__u8 pair[2];
		__u16 was, is;

		/* TTL and protocol are one word of the header's sum */
		if (bpf_skb_load_bytes(skb, at, pair, sizeof(pair)))
			return;
		__builtin_memcpy(&was, pair, sizeof(was));
		pair[0] = rule->ttl;
		__builtin_memcpy(&is, pair, sizeof(is));
		bpf_skb_store_bytes(skb, at, pair, sizeof(pair), 0);
		bpf_l3_csum_replace(skb,
				    sizeof(struct ethhdr) + __builtin_offsetof(struct iphdr, check),
				    was, is, sizeof(is));
	}
}

/* When the next SYN-ACK of this connection may leave. */
static __always_inline __u64 departure(struct packet *packet, struct rule *rule)
{
	__u64 now = bpf_ktime_get_ns();
	struct flow flow =
		flow_of(&packet->to, &packet->from, packet->tcp->dest, packet->tcp->source);
	struct progress *seen, fresh = { .first_ns = now, .count = 1, .number = packet->tcp->seq };
	__u64 due;

	seen = bpf_map_lookup_elem(&steps, &flow);
	if (!seen || seen->number != fresh.number) {
		bpf_map_update_elem(&steps, &flow, &fresh, BPF_ANY);
		return now;
	}
	if (seen->asked) {
		seen->asked = 0;
		return now;
	}
	due = seen->first_ns + seen->count * rule->step_ms * NS_PER_MS;
	seen->count++;
	return due > now ? due : now;
}

SEC("tc")
int from_server(struct __sk_buff *skb)
{
	struct packet packet;
	struct rule *rule;
	int syn_ack;

	if (read_packet(skb, &packet))
		return TC_ACT_OK;
	rule = bpf_map_lookup_elem(&rules, &packet.from);
	if (!rule)
		return TC_ACT_OK;
	if (skb->mark == MARK_COPY) {
		skb->mark = 0;
		skb->tstamp = bpf_ktime_get_ns() + rule->copy_ms * NS_PER_MS;
		return TC_ACT_OK;
	}
	/* lost on the way: TC_ACT_SHOT would report it to the sender, which then waits half a second (tcp_retransmit_timer) and
	 * shrinks its window (tcp_enter_cwr) as no path can make it */
	if (by_chance(rule->loss_per_mille))
		return TC_ACT_STOLEN;
	if (by_chance(rule->late_per_mille))
		skb->tstamp = bpf_ktime_get_ns() + rule->late_ms * NS_PER_MS;
	syn_ack = packet.tcp->syn && packet.tcp->ack;
	if (!syn_ack)
		return TC_ACT_OK;
	if (rule->step_ms)
		skb->tstamp = departure(&packet, rule);
	if (rule->rewrite)
		rewrite_syn_ack(skb, &packet, rule);
	if (rule->copy_ms) {
		skb->mark = MARK_COPY;
		bpf_clone_redirect(skb, skb->ifindex, 0);
		skb->mark = 0;
	}
	return TC_ACT_OK;
}

/* The finalizer of MurmurHash3 (Appleby): every bit of the input moves about half of the output's. */
static __always_inline __u32 mixed(__u32 word)
{
	word ^= word >> 16;
	word *= 0x85ebca6b;
	word ^= word >> 13;
	word *= 0xc2b2ae35;
	return word ^ word >> 16;
}

/* Writes over one of a packet's addresses, in both sums. */
static __always_inline void readdress(struct __sk_buff *skb, struct packet *packet,
				      struct address *old, struct address *fresh, int source)
{
	__u32 check = packet->tcp_at + __builtin_offsetof(struct tcphdr, check), at, i;

	if (packet->v6) {
		at = sizeof(struct ethhdr) + (source ? __builtin_offsetof(struct ipv6hdr, saddr)
						     : __builtin_offsetof(struct ipv6hdr, daddr));
#pragma unroll
		for (i = 0; i < 4; i++)
			bpf_l4_csum_replace(skb, check, old->word[i], fresh->word[i],
					    BPF_F_PSEUDO_HDR | 4);
		bpf_skb_store_bytes(skb, at, fresh, sizeof(*fresh), 0);
	} else {
		at = sizeof(struct ethhdr) + (source ? __builtin_offsetof(struct iphdr, saddr)
						     : __builtin_offsetof(struct iphdr, daddr));
		bpf_l4_csum_replace(skb, check, old->word[3], fresh->word[3], BPF_F_PSEUDO_HDR | 4);
		bpf_l3_csum_replace(skb,
				    sizeof(struct ethhdr) + __builtin_offsetof(struct iphdr, check),
				    old->word[3], fresh->word[3], 4);
		bpf_skb_store_bytes(skb, at, &fresh->word[3], 4, 0);
	}
}

SEC("tc")
int balance(struct __sk_buff *skb)
{
	struct packet packet;
	struct second_backend *second;
	__u32 hash;

	if (read_packet(skb, &packet))
		return TC_ACT_OK;
	second = bpf_map_lookup_elem(&second_backends, &packet.to);
	if (!second)
		return TC_ACT_OK;
	hash = mixed(packet.from.word[3] ^ ((__u32)packet.tcp->source << 16 | packet.tcp->dest));
	hash = mixed(hash ^ packet.to.word[3] ^ packet.to.word[2]);
	if (hash % 100 < second->percent)
		readdress(skb, &packet, &packet.to, &second->address, 0);
	return TC_ACT_OK;
}

SEC("tc")
int unbalance(struct __sk_buff *skb)
{
	struct packet packet;
	struct address *first;

	if (read_packet(skb, &packet))
		return TC_ACT_OK;
	first = bpf_map_lookup_elem(&asked, &packet.from);
	if (first)
		readdress(skb, &packet, &packet.from, first, 1);
	return TC_ACT_OK;
}

char _license[] SEC("license") = "Dual BSD/GPL";
