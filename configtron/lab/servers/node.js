// SPDX-License-Identifier: MIT
// Node's own HTTP/2 and HTTP/1.1, with each address's SETTINGS.
//
// Usage: node.js SITES.json. A server object has one set of SETTINGS, so there is one for each distinct site, none of
// which listens: the address a connection came to decides which one it is handed to.
'use strict';

const fs = require('fs');
const http = require('http');
const http2 = require('http2');
const https = require('https');
const net = require('net');

const listed = JSON.parse(fs.readFileSync(process.argv[2], 'utf8'));
// Many vantages connect at once; the kernel must not refuse one.
const BACKLOG = 16384;
const SETTING = { 1: 'headerTableSize', 2: 'enablePush', 3: 'maxConcurrentStreams', 4: 'initialWindowSize', 5: 'maxFrameSize', 6: 'maxHeaderListSize' };

function settingsOf(row) {
  const settings = {};
  for (const [id, value] of row.settings) settings[SETTING[id]] = id === 2 ? Boolean(value) : value;
  return settings;
}

function serversOf(row) {
  const page = fs.readFileSync(row.page);
  const answer = (request, response) => {
    response.setHeader('Content-Type', 'text/plain');
    response.setHeader('Content-Length', page.length);
    response.end(page);
  };
  const tls = { cert: fs.readFileSync(row.chain), key: fs.readFileSync(row.key) };
  const secure = row.http_version === 'h2'
    ? http2.createSecureServer({ ...tls, allowHTTP1: true, settings: settingsOf(row) }, answer)
    : https.createServer({ ...tls, ALPNProtocols: ['http/1.1'] }, answer);
  for (const event of ['sessionError', 'tlsClientError', 'clientError', 'secureConnection']) {
    if (event !== 'secureConnection') secure.on(event, (error, socket) => { if (socket && socket.destroy) socket.destroy(); });
  }
  const plain = http.createServer(answer);
  plain.on('clientError', (error, socket) => socket.destroy());
  return { 80: plain, 443: secure };
}

const servers = listed.sites.map(serversOf);
const everywhere = ['0.0.0.0', ...(Object.keys(listed.by_address).some((a) => a.includes(':')) ? ['::'] : [])];
for (const port of [80, 443]) {
  for (const host of everywhere) {
    const listener = net.createServer({ noDelay: true }, (socket) => {
      socket.on('error', () => socket.destroy());
      const index = listed.by_address[socket.localAddress];
      if (index === undefined) socket.destroy();
      else servers[index][port].emit('connection', socket);
    });
    listener.listen({ host, port, backlog: BACKLOG, ipv6Only: true });
  }
}
