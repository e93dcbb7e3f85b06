// SPDX-License-Identifier: MIT
// Reports how long a page took to its visitor: <script src="/configtron/beacon.js" async></script>, docs/learn.md.
// Sends at the load event and again when the page is hidden, with one id; only where the server issued a token
// (Server-Timing: ct). No cookie, no storage, nothing of the visitor.
(function (w, d, p) {
  'use strict';
  var s = d.currentScript, to = (s && s.dataset.to) || '/configtron/beacon', left = 3, persisted = 0, lcp = 0;
  var hidden = d.visibilityState === 'hidden' && !d.prerendering ? 0 : null;
  var id = Array.from(w.crypto.getRandomValues(new Uint8Array(8)), function (b) {
    return (b + 256).toString(16).slice(1);
  }).join('');
  function send(why) {
    var n = p.getEntriesByType('navigation')[0];
    var token = n && (n.serverTiming || []).find(function (t) { return t.name === 'ct'; });
    if (!token || !left--) { left = Math.max(left, 0); return; }
    navigator.sendBeacon(to, JSON.stringify({
      v: 1, id: id, t: token.description, w: why, nt: n.type, cs: n.connectStart, ce: n.connectEnd,
      qs: n.requestStart, ps: n.responseStart, le: n.loadEventEnd, lcp: lcp, as: n.activationStart || 0, hh: hidden,
      dw: d.wasDiscarded ? 1 : 0, pc: persisted, np: n.nextHopProtocol
    }));
  }
  function loaded() { setTimeout(function () { send('load'); }, 0); }
  try {
    new PerformanceObserver(function (list) {
      list.getEntries().forEach(function (e) { lcp = e.startTime; });
    }).observe({ type: 'largest-contentful-paint', buffered: true });
  } catch (e) { /* this browser has no such entries */ }
  w.addEventListener('pageshow', function (e) { persisted = e.persisted ? 1 : persisted; });
  d.addEventListener('visibilitychange', function () {
    if (d.visibilityState !== 'hidden') return;
    if (hidden === null) hidden = p.now();
    send('hide');
  });
  if (d.readyState === 'complete') loaded(); else w.addEventListener('load', loaded);
})(window, document, performance);
