// SPDX-License-Identifier: MIT
/*
 * One way of the player without devices: arrivals in, departures out.
 *
 *     period count at... offset delay packets bytes loss rate bucket outage seed     (us; the list may be empty)
 *     arrival_ns length                                           (a line each, in order)
 *
 * A line for each packet that gets through: its number and when it is there.
 */
#include <inttypes.h>

#include "played_way.h"

int main(void)
{
	static struct way way;
	uint64_t arrival_ns, length, number = 0;

	if (scanf("%" SCNu64 "%" SCNu64, &way.period_us, &way.count) != 2)
		return 1;
	way.at_us = calloc(way.count + 1, sizeof(*way.at_us));
	for (uint64_t n = 0; n < way.count; n++)
		if (scanf("%" SCNu64, &way.at_us[n]) != 1)
			return 1;
	if (scanf("%" SCNu64 "%" SCNu64 "%" SCNu64 "%" SCNu64 "%lf%" SCNu64 "%" SCNu64 "%" SCNu64
		  "%" SCNu64,
		  &way.offset_us, &way.delay_us, &way.most_packets, &way.most_bytes, &way.loss,
		  &way.rate, &way.bucket, &way.outage_us, &way.chance) != 9)
		return 1;
	begin_chance(&way, 0);
	while (scanf("%" SCNu64 "%" SCNu64, &arrival_ns, &length) == 2) {
		struct packet *packet = fresh();

		packet->length = length;
		memcpy(packet->bytes, &number, sizeof(number));
		number++;
		use_opportunities(&way, arrival_ns);
		arrive(&way, packet, arrival_ns);
	}
	use_opportunities(&way, NEVER / 2);
	for (struct packet *packet = way.flight.head; packet; packet = packet->next) {
		memcpy(&number, packet->bytes, sizeof(number));
		printf("%" PRIu64 " %" PRIu64 "\n", number, packet->due_ns);
	}
	return 0;
}
