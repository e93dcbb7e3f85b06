// SPDX-License-Identifier: MIT
/*
 * A browser's rules: which object is known, which is asked for next, when the page is complete.
 *
 * HTML is read while it comes in: a tag is known when its last byte is there. Scripts run when they are whole; those at
 * the head of a document one after the other, and not before the styles above them. Styles are applied, frames begun and
 * anything painted when all that stands at the document's head is there; until then hardly a picture is asked for.
 */
#include "load.h"

#include <string.h>

static struct object *things(void)
{
	return load.page->objects;
}

/* All at the head of that document that stands before `offset` is there and has run. */
static bool head_done(int document, long offset)
{
	for (int i = 1; i < load.page->object_count; i++) {
		struct object *thing = &things()[i];

		if (thing->parent == document && thing->blocks && thing->offset < offset &&
		    (thing->state != DONE || (thing->kind == SCRIPT && !thing->ran)))
			return false;
	}
	return true;
}

static bool may_run(struct object *thing)
{
	if (thing->state != DONE)
		return false;
	if (thing->kind == STYLE && thing->parent >= 0 && things()[thing->parent].kind == HTML)
		return head_done(thing->parent, things()[thing->parent].size + 1);
	return !thing->blocks || head_done(thing->parent, thing->offset);
}

/* What is there and held up by nothing does its work; that may be what another one waits for. */
static void run_all(void)
{
	for (bool more = true; more;) {
		more = false;
		for (int i = 0; i < load.page->object_count; i++)
			if (!things()[i].ran && may_run(&things()[i]))
				more = things()[i].ran = true;
	}
}

static bool is_known(struct object *thing)
{
	struct object *parent = &things()[thing->parent];

	if (thing->wave > load.wave)
		return false;
	if (parent->kind != HTML)
		return parent->ran;
	if (parent->got < thing->offset)
		return false;
	return thing->kind != HTML || head_done(thing->parent, thing->offset);
}

static int waiting_for(struct pool *pool)
{
	int count = 0;

	for (int i = 0; i < load.page->object_count; i++)
		count += things()[i].state == READY && &load.page->pools[things()[i].pool] == pool;
	return count;
}

/* The next to be asked for in this pool: by priority, then in the page's order. */
static struct object *next_ready(struct pool *pool)
{
	struct object *best = NULL;

	for (int i = 0; i < load.page->object_count; i++) {
		struct object *thing = &things()[i];

		if (thing->state == READY && &load.page->pools[thing->pool] == pool &&
		    (!best || thing->priority > best->priority))
			best = thing;
	}
	return best;
}

static bool is_delayable(struct object *thing)
{
	return thing->priority < MEDIUM_PRIORITY;
}

static struct object *next_held(void)
{
	struct object *best = NULL;

	for (int i = 0; i < load.page->object_count; i++)
		if (things()[i].state == HELD && (!best || things()[i].priority > best->priority))
			best = &things()[i];
	return best;
}

/* Lets go what may ask for a connection: everything urgent, and of the rest so many at once. */
static void release(void)
{
	int most = load.h2 ? load.page->object_count : DELAYABLE_AT_ONCE, under_way = 0;
	struct object *thing;

	if (!head_done(0, things()[0].size + 1))
		most = DELAYABLE_BEFORE_BODY;
	for (int i = 0; i < load.page->object_count; i++)
		under_way += is_delayable(&things()[i]) &&
			     (things()[i].state == READY || things()[i].state == ASKED);
	while ((thing = next_held()) && (!is_delayable(thing) || under_way < most)) {
		under_way += is_delayable(thing);
		thing->state = READY;
	}
}

static struct connection *idle_connection(struct pool *pool)
{
	for (struct connection *c = pool->connections; c; c = c->next)
		if (c->open && !c->answering && !c->closes)
			return c;
	return NULL;
}

static void serve_h1(struct pool *pool)
{
	int coming = 0, alive = 0, waiting;
	struct connection *c;
	struct object *thing;

	while ((c = idle_connection(pool)) && (thing = next_ready(pool)))
		ask_h1(c, thing);
	for (c = pool->connections; c; c = c->next) {
		c->rested |= c->open && !c->answering;
		coming += !c->open && !c->ended;
		alive += !c->ended;
	}
	waiting = waiting_for(pool);
	for (; waiting > coming && alive < CONNECTIONS_PER_POOL && !load.failed; alive++, coming++)
		open_connection(pool);
}

static void serve_h2(struct pool *pool)
{
	struct connection *c = pool->connections;
	struct object *thing;

	if (!waiting_for(pool))
		return;
	if (!c)
		open_connection(pool);
	if (!c || !c->open)
		return;
	while ((thing = next_ready(pool)))
		ask_h2(c, thing);
	send_h2(c);
}

static void begin_wave(void)
{
	int undone = 0;

	for (int i = 0; i < load.page->object_count; i++)
		undone += things()[i].wave <= load.wave && things()[i].state != DONE;
	if (undone || load.wave == load.page->gap_count)
		return;
	if (!load.quiet_until)
		load.quiet_until = now() + load.page->gaps[load.wave];
	if (load.due && now() >= load.quiet_until) {
		load.quiet_until = 0;
		load.wave++;
	}
}

void begin_page(void)
{
	for (int i = 0; i < load.page->object_count; i++) {
		struct object *thing = &things()[i];

		memset(&thing->state, 0, sizeof(*thing) - offsetof(struct object, state));
	}
	things()[0].state = READY;
}

/* Whatever can happen now does. */
void proceed(void)
{
	begin_wave();
	run_all();
	for (int i = 1; i < load.page->object_count; i++) {
		struct object *thing = &things()[i];

		if (thing->state == HIDDEN && is_known(thing)) {
			thing->state = thing->delay ? DELAYED : HELD;
			thing->ready = thing->delay ? now() + thing->delay : 0;
		}
		if (thing->state == DELAYED && load.due && thing->ready <= now())
			thing->state = HELD;
	}
	release();
	for (int i = 0; i < load.page->pool_count && !load.failed; i++)
		(load.h2 ? serve_h2 : serve_h1)(&load.page->pools[i]);
}

/* When something will happen though no packet comes. */
ns_t next_moment(void)
{
	ns_t soonest = load.begun + load.limit;

	if (load.quiet_until && load.quiet_until < soonest)
		soonest = load.quiet_until;
	for (int i = 1; i < load.page->object_count; i++)
		if (things()[i].state == DELAYED && things()[i].ready < soonest)
			soonest = things()[i].ready;
	return soonest;
}

/*
 * When an average part of the first screen was shown: the mean, weighted by area, of the moments at which the parts were
 * there and could be painted. SpeedIndex is the same mean over pixels. The document's own part, text, comes in evenly.
 */
double shown_ms(void)
{
	ns_t paint = things()[0].first;
	double area = 0, sum = 0;

	for (int i = 1; i < load.page->object_count; i++)
		if (things()[i].parent == 0 && things()[i].blocks && things()[i].done > paint)
			paint = things()[i].done;
	for (int i = 0; i < load.page->object_count; i++) {
		struct object *thing = &things()[i];
		ns_t there = i ? thing->done : (thing->first + thing->done) / 2;

		area += thing->area;
		sum += thing->area * ((there > paint ? there : paint) - load.begun);
	}
	return area ? sum / area / 1e6 : 0;
}
