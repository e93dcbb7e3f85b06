// SPDX-License-Identifier: MIT
/*
 * HTTP/2: all requests at once on one connection, windows and priorities as Chromium's.
 *
 * Chromium lines the streams up: a new one hangs, exclusively, below the last one asked for that is at least as urgent,
 * so a server that heeds priorities sends one after the other (net/spdy/http2_priority_dependencies.h).
 */
#include "load.h"

#include <string.h>

/* SpdySession: initial windows of a stream and of the connection, and the HPACK table */
#define STREAM_WINDOW (6 * 1024 * 1024)
#define CONNECTION_WINDOW (15 * 1024 * 1024)
#define TABLE_BYTES 65536
#define LONGEST_HEAD_BYTES (256 * 1024)

#define FIELD(name, value)                                                          \
	{                                                                           \
		(uint8_t *)(name), (uint8_t *)(value), strlen(name), strlen(value), \
			NGHTTP2_NV_FLAG_NONE                                        \
	}

static struct object *stream_object(nghttp2_session *session, int32_t stream)
{
	return nghttp2_session_get_stream_user_data(session, stream);
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *bytes,
		   size_t count, void *c)
{
	struct object *thing = stream_object(session, stream);

	(void)flags, (void)bytes, (void)c;
	if (thing)
		got_bytes(thing, count);
	return 0;
}

static int on_field(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
		    size_t name_bytes, const uint8_t *value, size_t value_bytes, uint8_t flags,
		    void *c)
{
	struct object *thing = stream_object(session, frame->hd.stream_id);

	(void)flags, (void)c;
	if (thing && !thing->first)
		thing->first = now();
	if (name_bytes == 7 && !memcmp(name, ":status", 7) &&
	    (value_bytes != 3 || memcmp(value, "200", 3)))
		load.failed = "answer";
	if (thing && name_bytes == 13 && !memcmp(name, "server-timing", 13))
		got_timing(thing, (const char *)value, value_bytes);
	return 0;
}

static int on_close(nghttp2_session *session, int32_t stream, uint32_t error, void *c)
{
	struct object *thing = stream_object(session, stream);

	(void)c;
	if (error)
		load.failed = "stream";
	else if (thing)
		got_all(thing);
	return 0;
}

static void begin_h2(struct connection *c)
{
	const nghttp2_settings_entry settings[] = {
		{ NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, TABLE_BYTES },
		{ NGHTTP2_SETTINGS_ENABLE_PUSH, 0 },
		{ NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW },
		{ NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, LONGEST_HEAD_BYTES },
	};
	nghttp2_session_callbacks *calls;

	nghttp2_session_callbacks_new(&calls);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(calls, on_data);
	nghttp2_session_callbacks_set_on_header_callback(calls, on_field);
	nghttp2_session_callbacks_set_on_stream_close_callback(calls, on_close);
	nghttp2_session_client_new(&c->session, calls, c);
	nghttp2_session_callbacks_del(calls);
	nghttp2_submit_settings(c->session, NGHTTP2_FLAG_NONE, settings,
				sizeof(settings) / sizeof(*settings));
	nghttp2_session_set_local_window_size(c->session, NGHTTP2_FLAG_NONE, 0, CONNECTION_WINDOW);
}

/* The stream to hang the new one below; 0 is the root. */
static int32_t above(struct connection *c, struct object *asked)
{
	struct object *last = NULL;

	for (int i = 0; i < load.page->object_count; i++) {
		struct object *thing = &load.page->objects[i];

		if (thing != asked && thing->state == ASKED && thing->on == c &&
		    thing->priority >= asked->priority &&
		    (!last || thing->priority < last->priority ||
		     (thing->priority == last->priority && thing->stream > last->stream)))
			last = thing;
	}
	return last ? last->stream : 0;
}

void ask_h2(struct connection *c, struct object *thing)
{
	/* net/spdy/spdy_http_utils.cc: HIGHEST 256, MEDIUM 220, LOW 183, LOWEST 147 */
	static const int weights[] = { 110, 110, 147, 183, 220, 256 };
	const nghttp2_nv fields[] = {
		FIELD(":method", "GET"),
		FIELD(":authority", c->pool->host),
		FIELD(":scheme", "https"),
		FIELD(":path", thing->path),
		FIELD("user-agent", AGENT),
		FIELD("accept", "*/*"),
		FIELD("sec-fetch-site", "same-site"),
		FIELD("sec-fetch-mode", "no-cors"),
		FIELD("accept-encoding", "identity"),
		FIELD("accept-language", "en-US,en;q=0.9"),
	};
	nghttp2_priority_spec place;

	nghttp2_priority_spec_init(&place, above(c, thing), weights[thing->priority], 1);
	thing->stream = nghttp2_submit_request(c->session, &place, fields,
					       sizeof(fields) / sizeof(*fields), NULL, thing);
	if (thing->stream < 0)
		load.failed = "stream";
	thing->state = ASKED;
	thing->asked = now();
	thing->on = c;
}

static void read_h2(struct connection *c, const unsigned char *bytes, size_t count)
{
	if (nghttp2_session_mem_recv(c->session, bytes, count) < 0)
		load.failed = "frames";
	else
		send_h2(c);
}

void send_h2(struct connection *c)
{
	const uint8_t *bytes;
	ssize_t count;

	while ((count = nghttp2_session_mem_send(c->session, &bytes)) > 0)
		put(c, bytes, count);
	flush(c);
}

static void ended_h2(struct connection *c)
{
	(void)c;
	load.failed = "closed";
}

const struct protocol http2 = { .opened = begin_h2, .read = read_h2, .ended = ended_h2 };
