# SPDX-License-Identifier: MIT
"""The bytes of a page's objects: of the right length and kind, and naming what they must, where they must.

Question   How can one page be loaded by our client and by any browser, and mean the same?
Method     HTML holds real tags, each ending at its object's offset; scripts ask for theirs when they run, after the
           delay; styles use theirs. Everything between is filler. Objects of later waves are asked for by a script in
           the document: when all of the waves before have come, and the gap has passed.
Differs    from a real page: pictures are blank, fonts are no fonts (they are fetched, then refused).
"""

from __future__ import annotations

import json
import struct

from configtron.lab.testbed.pages import PageModel
from configtron.lab.testbed.plan import blocking
from configtron.model.errors import BadInput

# A picture's width in pixels where there is room for a row of it; rows are 3 bytes a pixel, padded to 4 bytes.
WIDTH_PX = 40
# <wingdi.h>: BITMAPFILEHEADER and BITMAPINFOHEADER
BITMAP_HEAD_BYTES = 54

# Asks for a thing of that kind from that place. No cookies exist; "include" keeps it on the page's connections.
FETCH = (
    'function N(t,u){var d=document,e;if(t=="image"){(window.I=window.I||[]).push(e=new Image);e.src=u}'
    'else if(t=="json")fetch(u,{mode:"no-cors",credentials:"include"}).then(function(r){return r.text()});'
    'else if(t=="font")new FontFace("f","url("+u+")").load().catch(function(){});'
    'else{e=d.createElement({script:"script",style:"link",html:"iframe"}[t]);'
    'if(t=="style"){e.rel="stylesheet";e.href=u}else e.src=u;(t=="html"?d.body:d.head).appendChild(e)}}'
)
# Waves: W(k, t, u) keeps a thing until wave k begins; C is how many things come before each wave, G the gaps.
WAVES = (
    "var Q=[],w=0,n=0;function W(k,t,u){k>w?Q.push([k,t,u]):N(t,u)}"
    "new PerformanceObserver(function(l){n+=l.getEntries().length;if(n==C[w])setTimeout(function(){w++;"
    "Q.filter(function(q){return q[0]==w}).forEach(function(q){N(q[1],q[2])})},G[w])})"
    '.observe({type:"resource",buffered:true});'
)


def body(page: PageModel, index: int) -> bytes:
    """Return all bytes of that object."""
    thing = page.objects[index]
    made = {"html": _html, "script": _script, "style": _style, "image": _image}.get(thing.kind, _filler)(page, index)
    if len(made) != thing.size:
        raise BadInput(f"page {page.name}: {thing.path} has no room for what it names")
    return made


def url(page: PageModel, index: int) -> str:
    thing = page.objects[index]
    return f"https://{page.origins[thing.origin]}{thing.path}"


def _filler(page: PageModel, index: int) -> bytes:
    return b"x" * page.objects[index].size


def _html(page: PageModel, index: int) -> bytes:
    blocks = blocking(page)
    named = page.children(index)
    text = f"<!doctype html><html><head><meta charset=utf-8><title>{page.name}</title><link rel=icon href=data:,>"
    text += f"<script>{_waves(page)}</script>" if page.gaps_ms and index == 0 else ""
    in_head = True
    for child in named:
        if in_head and child not in blocks:
            text, in_head = text + _opening(page, named), False
        tag = _tag(page, child, blocks=child in blocks)
        spare = page.objects[child].offset - len(text) - len(tag)
        if spare < 0:
            raise BadInput(f"page {page.name}: no room before offset {page.objects[child].offset} for its tag")
        text += _comment(spare) + tag
    text += _opening(page, named) if in_head else ""
    return (text + _comment(page.objects[index].size - len(text) - len("</body></html>")) + "</body></html>").encode()


def _opening(page: PageModel, named: list[int]) -> str:
    """Return the start of a body; styles find something to apply to."""
    styles = [i for i in named if page.objects[i].kind == "style" and page.children(i)]
    return "</head><body>" + "".join(f"<i id=s{i}></i>" for i in styles)


def _comment(count: int) -> str:
    """That many bytes of nothing; what is too short for a comment is blank."""
    return f"<!--{'x' * (count - 7)}-->" if count >= 7 else " " * count


def _tag(page: PageModel, child: int, *, blocks: bool) -> str:
    thing, place = page.objects[child], url(page, child)
    if thing.wave:
        return f'<script>W({thing.wave},"{thing.kind}","{place}")</script>'
    return {
        "html": f'<iframe src="{place}"></iframe>',
        "style": f'<link rel=stylesheet href="{place}">',
        "script": f'<script {"" if blocks else "async "}src="{place}"></script>',
        "font": f'<link rel=preload as=font crossorigin href="{place}">',
        "image": f'<img src="{place}">',
        "json": f'<link rel=preload as=fetch crossorigin=use-credentials href="{place}">',
    }[thing.kind]


def _waves(page: PageModel) -> str:
    counts = [sum(thing.wave <= k for thing in page.objects) - 1 for k in range(len(page.gaps_ms))]
    return f"{FETCH}var C={json.dumps(counts)},G={json.dumps(list(page.gaps_ms))};{WAVES}"


def _script(page: PageModel, index: int) -> bytes:
    calls = []
    for child in page.children(index):
        thing = page.objects[child]
        keep = f"W({thing.wave}," if thing.wave > page.objects[index].wave else "N("
        call = f'{keep}"{thing.kind}","{url(page, child)}")'
        calls.append(f"setTimeout(function(){{{call}}},{thing.delay_ms:g});" if thing.delay_ms else f"{call};")
    text = f"(function(){{{FETCH}{''.join(calls)}}})();" if calls else ""
    return _padded(text, page.objects[index].size)


def _style(page: PageModel, index: int) -> bytes:
    """Pictures as backgrounds of one element, fonts for one letter each of its text."""
    named = page.children(index)
    images = [f"url({url(page, i)})" for i in named if page.objects[i].kind == "image"]
    fonts = [i for i in named if page.objects[i].kind == "font"]
    if len(images) + len(fonts) < len(named):
        raise BadInput(f"page {page.name}: {page.objects[index].path} is a style and names only images and fonts")
    faces = [
        f"@font-face{{font-family:f{i};src:url({url(page, i)});unicode-range:U+{ord('a') + k:x}}}"
        for k, i in enumerate(fonts)
    ]
    letters = "".join(chr(ord("a") + k) for k in range(len(fonts)))
    text = "".join(faces) + (f"#s{index}{{background-image:{','.join(images)}}}" if images else "")
    if fonts:
        text += f'#s{index}::after{{content:"{letters}";font-family:{",".join(f"f{i}" for i in fonts)}}}'
    return _padded(text, page.objects[index].size)


def _padded(text: str, size: int) -> bytes:
    """Scripts and styles have one way to write a comment."""
    spare = size - len(text)
    return (text + (f"/*{'y' * (spare - 4)}*/" if spare >= 4 else " " * spare)).encode()


def _image(page: PageModel, index: int) -> bytes:
    """Return a bitmap: blank, and its length is what it should be."""
    size = page.objects[index].size
    width = WIDTH_PX if size >= BITMAP_HEAD_BYTES + 3 * WIDTH_PX else 1
    row = (3 * width + 3) // 4 * 4
    height = max(1, (size - BITMAP_HEAD_BYTES) // row)
    head = b"BM" + struct.pack("<IHHI", size, 0, 0, BITMAP_HEAD_BYTES)
    head += struct.pack("<IiiHHIIiiII", 40, width, height, 1, 24, 0, height * row, 2835, 2835, 0, 0)
    return head + bytes(max(0, size - len(head)))
