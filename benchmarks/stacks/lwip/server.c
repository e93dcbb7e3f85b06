// SPDX-License-Identifier: MIT
/*
 * A web server on lwIP as Debian builds it (liblwip-dev), behind a TAP device.
 *
 *     PRECONFIGURED_TAPIF=DEVICE server ADDRESS GATEWAY PAGE_BYTES
 *
 * lwIP begins with a timeout of 3 s in ticks of 0.5 s (LWIP_TCP_RTO_TIME, tcp_slow_interval) and the window of RFC 3390.
 */
#include <lwip/api.h>
#include <lwip/etharp.h>
#include <lwip/inet.h>
#include <lwip/netif.h>
#include <lwip/sockets.h>
#include <lwip/tcpip.h>
#include <netif/tapif.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEAD "HTTP/1.1 200 OK\r\nServer: lwip\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
#define REQUEST_MOST 4096
#define BACKLOG 16

static struct netif interface;
static ip4_addr_t address, gateway;
static char *answer;
static volatile int is_up;

static void raise_interface(void *unused)
{
	ip4_addr_t mask;

	(void)unused;
	IP4_ADDR(&mask, 255, 255, 255, 0);
	netif_add(&interface, &address, &mask, &gateway, NULL, tapif_init, tcpip_input);
	netif_set_default(&interface);
	netif_set_up(&interface);
	netif_set_link_up(&interface);
	is_up = 1;
}

static void serve(void *connection)
{
	char request[REQUEST_MOST + 1];
	int socket = (int)(long)connection, length = 0, got;

	while (length < REQUEST_MOST &&
	       (got = lwip_recv(socket, request + length, REQUEST_MOST - length, 0)) > 0) {
		length += got;
		request[length] = 0;
		if (strstr(request, "\r\n\r\n"))
			break;
	}
	if (length > 0)
		lwip_send(socket, answer, strlen(answer), 0);
	lwip_close(socket);
}

static char *page_of(int size)
{
	char *text = malloc(size + sizeof(HEAD) + 16);
	int head = sprintf(text, HEAD, size);

	memset(text + head, 'x', size);
	text[head + size] = 0;
	return text;
}

int main(int count, char **words)
{
	struct sockaddr_in here = { .sin_family = AF_INET, .sin_port = lwip_htons(80) };
	int listener, connection;

	if (count != 4 || !ip4addr_aton(words[1], &address) || !ip4addr_aton(words[2], &gateway)) {
		fprintf(stderr, "usage: server ADDRESS GATEWAY PAGE_BYTES\n");
		return 2;
	}
	answer = page_of(atoi(words[3]));
	tcpip_init(raise_interface, NULL);
	while (!is_up)
		usleep(10000);
	listener = lwip_socket(AF_INET, SOCK_STREAM, 0);
	lwip_bind(listener, (struct sockaddr *)&here, sizeof(here));
	lwip_listen(listener, BACKLOG);
	for (;;) {
		connection = lwip_accept(listener, NULL, NULL);
		if (connection >= 0)
			sys_thread_new("connection", serve, (void *)(long)connection, 0, 0);
	}
}
