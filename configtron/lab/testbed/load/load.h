/* SPDX-License-Identifier: MIT */
/*
 * The page-load client: what its parts share.
 *
 *   load.c            commands in, one line of JSON per load out; the event loop
 *   plan.c            reads the pages
 *   browse.c          which object is known, asked for, done: a browser's rules
 *   http1.c http2.c   the protocol on a connection
 *   stream.c          a connection: TCP, TLS, bytes in and out
 *   state.c           the load under way: its clock, what has come of its objects
 *
 * Each file calls those below it only; stream.c passes bytes up by the load's struct protocol.
 *
 * One thread, one load at a time. Times are nanoseconds of CLOCK_MONOTONIC, read at most once for each wake-up and only if
 * a caller needs it: in a guest every reading is a system call.
 */
#ifndef LOAD_H
#define LOAD_H

#include <nghttp2/nghttp2.h>
#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* what browsers allow to one host with HTTP/1.1 (Chromium: ClientSocketPoolManager) */
#define CONNECTIONS_PER_POOL 6
/* requests below medium priority at once over HTTP/1.1 (Chromium: ResourceScheduler) */
#define DELAYABLE_AT_ONCE 10
/* the same, over both, while the document's head is not done (Blink: ResourceLoadScheduler, "tight") */
#define DELAYABLE_BEFORE_BODY 2
#define MEDIUM_PRIORITY 4
/* ports of a load's connections that are reported, where its source address is given */
#define MOST_PORTS 64
/* one system call takes all that a receive buffer usually holds */
#define INPUT_BYTES (64 * 1024)
/* what a packet brings: to wait for less saves no wake-up and costs the call that says so */
#define WORTH_WAITING_BYTES 1448

typedef int64_t ns_t;
#define SECOND 1000000000LL

enum kind {
	HTML,
	STYLE,
	SCRIPT,
	FONT,
	IMAGE,
	JSON,
	KINDS
};
/* known after HIDDEN; HELD back for what is more urgent; READY to take a connection */
enum state {
	HIDDEN,
	DELAYED,
	HELD,
	READY,
	ASKED,
	DONE
};

struct connection;

struct object {
	/* the plan */
	enum kind kind;
	int pool, parent, wave, priority;
	bool blocks;
	long offset, size;
	ns_t delay;
	double area;
	char path[256];
	/* this load */
	enum state state;
	bool ran;
	long got;
	ns_t ready, asked, first, done;
	struct connection *on;
	int32_t stream;
};

/* Connections to one origin that may be shared: two pools an origin, the second for requests without credentials. */
struct pool {
	const char *host;
	uint32_t address; /* network order */
	struct connection *connections;
	int opened;
	SSL_SESSION *session; /* of the visit before, for the next handshake; NULL: none */
};

struct page {
	char name[64];
	struct object *objects;
	struct pool *pools;
	ns_t *gaps;
	int object_count, pool_count, gap_count;
	struct page *next;
};

struct connection {
	struct pool *pool;
	struct connection *next;
	int socket;
	bool connected, open, drained, ended;
	SSL *tls;
	unsigned char in[INPUT_BYTES];
	size_t in_from, in_to;
	int least; /* bytes that wake us */
	unsigned char *out;
	size_t out_from, out_to, out_room;
	/* HTTP/1.1 */
	struct object *answering;
	char head[8192];
	size_t head_bytes;
	bool in_body, closes, rested; /* rested: there was nothing to ask it at once */
	int answered;
	/* HTTP/2 */
	nghttp2_session *session;
};

/* What stream.c calls of the protocol on a connection: at its opening, for each piece of bytes, at its end. */
struct protocol {
	void (*opened)(struct connection *c);
	void (*read)(struct connection *c, const unsigned char *bytes, size_t count);
	void (*ended)(struct connection *c);
};

struct load {
	struct page *page;
	const struct protocol *protocol;
	bool h2, resumes; /* resumes: TLS sessions of the visit before are used */
	ns_t begun, limit, quiet_until, connected;
	ns_t read; /* this wake-up's time; 0 when not read yet */
	bool due; /* the timer rang */
	uint32_t source; /* address of the client, network order; 0: the kernel's choice */
	int ports[MOST_PORTS]; /* of its own end, in order of opening */
	char token[40]; /* of the document's Server-Timing header */
	long bytes;
	int done, wave, connections,
		resumed; /* resumed: handshakes that went on with an earlier session */
	const char *failed; /* NULL, or the reason that ends this load */
};

extern struct load load;

/* state.c */
ns_t clock_ns(void);
ns_t now(void);
void got_bytes(struct object *thing, long bytes);
void got_all(struct object *thing);
void got_timing(struct object *thing, const char *value, size_t count);

/* plan.c */
struct page *read_plan(const char *file);

/* browse.c */
void begin_page(void);
void proceed(void);
ns_t next_moment(void);
double shown_ms(void);

/* stream.c */
void prepare_tls(void);
struct connection *open_connection(struct pool *pool);
void on_event(struct connection *c, uint32_t events);
void put(struct connection *c, const void *bytes, size_t count);
void flush(struct connection *c);
void close_all(struct page *page);
void forget_sessions(struct page *page);
extern int watch;

/* http1.c, http2.c */
extern const struct protocol http1, http2;
void ask_h1(struct connection *c, struct object *thing);
void ask_h2(struct connection *c, struct object *thing);
void send_h2(struct connection *c);

#define AGENT \
	"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) configtron/1.0 Safari/537.36"

#endif
