// SPDX-License-Identifier: MIT
/* Reads the plan that plan.py writes: lines of words; it was checked there, so a bad line is a mistake of ours. */
#include "load.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const kinds[KINDS] = { "html", "style", "script", "font", "image", "json" };

static void *grown(void *list, int count, size_t size)
{
	list = realloc(list, (count + 1) * size);
	if (!list)
		abort();
	memset((char *)list + count * size, 0, size);
	return list;
}

static void bad(const char *line)
{
	fprintf(stderr, "load: a plan without sense: %s\n", line);
	exit(2);
}

static void add_origin(struct page *page, const char *line)
{
	char name[256], address[64];
	struct in_addr parsed;

	if (sscanf(line, "origin %255s %63s", name, address) != 2 || !inet_aton(address, &parsed))
		bad(line);
	for (int i = 0; i < 2; i++) {
		page->pools = grown(page->pools, page->pool_count, sizeof(*page->pools));
		page->pools[page->pool_count++] =
			(struct pool){ .host = strdup(name), .address = parsed.s_addr };
	}
}

static void add_object(struct page *page, const char *line)
{
	struct object *thing;
	char kind[16];
	double delay_ms;
	int blocks;

	page->objects = grown(page->objects, page->object_count, sizeof(*page->objects));
	thing = &page->objects[page->object_count];
	if (sscanf(line, "object %15s %d %d %ld %lf %d %d %d %lf %ld %255s", kind, &thing->pool,
		   &thing->parent, &thing->offset, &delay_ms, &thing->wave, &thing->priority,
		   &blocks, &thing->area, &thing->size, thing->path) != 11)
		bad(line);
	while (strcmp(kinds[thing->kind], kind))
		if (++thing->kind == KINDS)
			bad(line);
	if (thing->pool >= page->pool_count || thing->parent >= page->object_count)
		bad(line);
	thing->delay = delay_ms * 1e6;
	thing->blocks = blocks;
	page->object_count++;
}

static void add_gap(struct page *page, const char *line)
{
	page->gaps = grown(page->gaps, page->gap_count, sizeof(*page->gaps));
	page->gaps[page->gap_count++] = atof(line + strlen("gap ")) * 1e6;
}

struct page *read_plan(const char *file)
{
	struct page *pages = NULL, *page = NULL;
	FILE *plan = fopen(file, "r");
	char line[1024];

	if (!plan)
		bad(file);
	while (fgets(line, sizeof(line), plan)) {
		if (!strncmp(line, "page ", 5)) {
			page = calloc(1, sizeof(*page));
			if (!page || sscanf(line, "page %63s", page->name) != 1)
				bad(line);
			page->next = pages;
			pages = page;
		} else if (!page) {
			bad(line);
		} else if (!strncmp(line, "origin ", 7)) {
			add_origin(page, line);
		} else if (!strncmp(line, "gap ", 4)) {
			add_gap(page, line);
		} else {
			add_object(page, line);
		}
	}
	fclose(plan);
	return pages;
}
