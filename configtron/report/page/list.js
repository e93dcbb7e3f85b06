// SPDX-License-Identifier: MIT
// Sorts and filters the rows of the page's list, and opens the picture that a link leads to. Reads nothing but the page.
(() => {
  const STEP = 40, find = id => document.getElementById(id);
  const table = document.querySelector('table.list'), field = find('filter'), sort = find('sort'), more = find('more');
  const rows = [...table.tBodies[0].rows].map((row, n) => ({ row, n, text: row.textContent.toLowerCase() }));
  let most = STEP, column = -1, up = true;
  const isText = () => Boolean(sort.options[sort.selectedIndex].dataset.text);
  // 17 and 2:17 (frames), 5.24 MB, 3/0/12/0 1.5 % (repeats), >= 10 L, server 3; -1 for none.
  const number = text => {
    const found = text.match(/^(?:(\d+):)?(?:>= |client |server )?(\d[\d.]*(?:\/\d+)*)(?: ([kMGT])B)?/);
    if (!found) return -1;
    const sum = found[2].split('/').reduce((before, part) => before + +part, 0);
    return sum * ({ k: 1e3, M: 1e6, G: 1e9, T: 1e12 }[found[3]] || 1) + (+found[1] || 0) * 1e12;
  };
  const value = one => {
    if (column < 0) return one.n;
    const text = one.row.cells[column].textContent;
    return isText() ? text : number(text);
  };
  const show = () => {
    const words = field.value.toLowerCase().split(/\s+/);
    const found = rows.filter(one => words.every(word => one.text.includes(word)));
    found.sort((a, b) => {
      const x = value(a), y = value(b);
      return (x < y ? -1 : x > y ? 1 : 0) * (up ? 1 : -1) || a.n - b.n;
    });
    table.tBodies[0].replaceChildren(...found.slice(0, most).map(one => one.row));
    [...table.tHead.rows[0].cells].forEach((head, n) =>
      n === column ? head.setAttribute('aria-sort', up ? 'ascending' : 'descending') : head.removeAttribute('aria-sort'));
    find('said').textContent = `${Math.min(most, found.length)} of ${found.length} shown`;
    more.hidden = found.length <= most;
  };
  const by = chosen => {
    sort.value = chosen;
    up = chosen === column ? !up : chosen <= 0 || isText();
    column = chosen;
    show();
  };
  const open = () => {
    const named = location.hash && find(location.hash.slice(1));
    if (named && named.tagName === 'DETAILS') { named.open = true; named.scrollIntoView(); }
  };
  field.oninput = () => { most = STEP; show(); };
  sort.onchange = () => by(+sort.value);
  more.onclick = () => { most += 5 * STEP; show(); };
  table.tHead.onclick = event => by(event.target.closest('th').cellIndex);
  addEventListener('hashchange', open);
  find('tools').hidden = false;
  show();
  open();
})();
