// Adds optional features to the pages: search, a drawing of callers and callees, highlighting under
// the pointer, a theme.
"use strict";
(() => {
  const root = document.currentScript.getAttribute("src").replace("script.js", "");
  const make = (name, attributes = {}, ...inside) => {
    const svg = ["svg", "g", "path", "rect", "text", "title"].includes(name);
    const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...inside);
    return made;
  };

  // Pages opened from disk cannot fetch, so the data files are scripts that call N and G.
  // Each name is an array: package, name, kind and the address of its description.
  let names, asked;
  const waiting = [], chunks = new Map();
  const load = path => document.head.append(make("script", { src: root + path }));
  const hex = letter => [...new TextEncoder().encode(letter)].map(byte => "_" + byte.toString(16).padStart(2, "0")).join("");
  const slug = name => [...name].map((letter, at) => /[a-z-]/.test(letter) || at && /[0-9]/.test(letter) ? letter : hex(letter)).join("");
  window.N = (packages, files, rows) => {
    names = rows.map(([home, name, kind, file, anchor]) => [packages[home], name, kind, `${root}f/${files[file]}.html#${anchor || slug(name)}`]);
    waiting.splice(0).forEach(then => then());
  };
  window.G = (number, rows) => { const then = chunks.get(number); chunks.set(number, rows); if (typeof then === "function") then(); };
  const withNames = then => {
    if (names) return then();
    waiting.push(then);
    if (!asked) { asked = true; load("names.js"); }
  };
  const CHUNK = 512;
  const withEdges = (number, then) => {
    const chunk = Math.floor(number / CHUNK), known = chunks.get(chunk);
    const give = () => then(...chunks.get(chunk)[number % CHUNK]);
    if (Array.isArray(known)) return give();
    chunks.set(chunk, () => { if (known) known(); give(); });
    if (!known) load(`g/${chunk}.js`);
  };
  const page = number => names[number][3];

  // Theme.
  const themes = document.documentElement.dataset;
  const keep = (key, value) => { try { if (value) localStorage.setItem(key, value); return localStorage.getItem(key); } catch { return value; } };
  const kept = new URLSearchParams(location.search).get("theme") || keep("steelbank-theme");
  if (kept) themes.theme = kept;
  const button = make("button", { type: "button", title: "Dark or light", "aria-label": "Dark or light" }, "◐");
  button.onclick = () => {
    const dark = themes.theme ? themes.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    themes.theme = keep("steelbank-theme", dark ? "light" : "dark") || (dark ? "light" : "dark");
  };

  // Search.
  const input = make("input", { type: "search", placeholder: "Search symbols   /", "aria-label": "Search symbols", autocomplete: "off", spellcheck: "false" });
  const list = make("ul", { class: "found", hidden: "" });
  const form = make("form", { role: "search" }, input, list);
  document.querySelector("header").append(form, button);
  let on = 0;
  const rank = (name, wanted) => {
    if (name === wanted) return 0;
    if (name.startsWith(wanted)) return 1;
    if (name.split("-").some(part => part.startsWith(wanted))) return 2;
    if (name.includes(wanted)) return 3;
    // Match the words of a name by their initials: tp finds total-price.
    return name.split(/[-*%+]/).map(part => part[0] || "").join("").startsWith(wanted) ? 4 : 9;
  };
  const show = () => {
    const typed = input.value.trim().toLowerCase();
    const [wanted, prefix] = typed.split(/::?/).reverse();
    list.hidden = !typed;
    if (!typed) return;
    const found = [];
    names.forEach(([home, name, kind], number) => {
      if (prefix && !home.startsWith(prefix)) return;
      const place = wanted ? rank(name, wanted) : 1;
      if (place < 9) found.push([place, name.length, number, home, name, kind]);
    });
    found.sort((a, b) => a[0] - b[0] || a[1] - b[1] || a[2] - b[2]);
    on = 0;
    list.replaceChildren(...found.slice(0, 40).map(([, , number, home, name, kind], place) =>
      make("li", {}, make("a", { href: page(number), class: place ? "" : "on" }, make("span", { class: kind }, name), make("small", {}, home)))));
    if (!found.length) list.append(make("li", {}, "No symbol name matches."));
  };
  input.oninput = () => withNames(show);
  input.onfocus = () => withNames(() => {});
  input.onkeydown = event => {
    const links = [...list.querySelectorAll("a")];
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && links.length) {
      on = (on + step + links.length) % links.length;
      links.forEach((link, place) => link.classList.toggle("on", place === on));
      links[on].scrollIntoView({ block: "nearest" });
      event.preventDefault();
    } else if (event.key === "Escape") { input.value = ""; show(); input.blur(); }
  };
  form.onsubmit = event => { event.preventDefault(); const link = list.querySelector(".on"); if (link) location = link.href; };
  document.addEventListener("keydown", event => {
    if (event.key === "/" && !event.ctrlKey && !event.metaKey && document.activeElement !== input) { input.focus(); event.preventDefault(); }
  });
  document.addEventListener("click", event => { if (!form.contains(event.target)) list.hidden = true; });

  // Code: highlight equal names under the pointer; link the standard's names to their list.
  const main = document.querySelector(".file main");
  if (main) {
    const same = token => token.localName === "u"
      ? token.closest(".code").getElementsByClassName(token.className.split(" ")[0])
      : [...token.closest(".code").querySelectorAll("a")].filter(other => other.getAttribute("href") === token.getAttribute("href"));
    main.addEventListener("mouseover", event => {
      main.querySelectorAll(".lit").forEach(lit => lit.classList.remove("lit"));
      const under = event.target.closest(".code a, .code u");
      if (under) [...same(under)].forEach(lit => lit.classList.add("lit"));
      const standard = event.target.closest(".code em, .code b");
      if (standard) { standard.classList.add("link"); standard.title = "common-lisp"; }
    });
    main.addEventListener("click", event => {
      const standard = event.target.closest(".code em, .code b");
      if (standard) location = `${root}p/common-lisp.html#${slug(standard.textContent.toLowerCase().split(":").pop())}`;
    });
  }

  // The drawing: callers on the left, callees on the right; a click moves to a symbol.
  const MOST = 9, HEIGHT = 34, WIDTH = 860, BOX = 250;
  const cut = text => text.length > 32 ? text.slice(0, 31) + "…" : text;
  const drawing = first => {
    const figure = make("figure", { hidden: "" }), caption = make("figcaption"), trail = [];
    figure.append(caption);
    const draw = number => withEdges(number, (callers, callees) => {
      if (number === first && !callers.length && !callees.length) return;
      figure.hidden = false;
      const rows = Math.max(1, Math.min(MOST + 1, Math.max(callers.length, callees.length)));
      const height = rows * HEIGHT + 24, middle = height / 2;
      const svg = make("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": "Callers and callees of " + names[number][1] });
      const node = (text, hint, x, y, kind, then) => {
        const group = make("g", { class: "node " + kind, transform: `translate(${x} ${y})`, tabindex: "0" });
        group.append(make("rect", { x: -BOX / 2, y: -13, width: BOX, height: 26 }), make("text", {}, cut(text)), make("title", {}, hint));
        group.onclick = then;
        group.onkeydown = event => { if (event.key === "Enter") then(); };
        svg.append(group);
      };
      const side = (all, x, edge, toward) => {
        const shown = all.slice(0, MOST), more = all.length - shown.length, count = shown.length + (more ? 1 : 0);
        const at = place => middle + (place - (count - 1) / 2) * HEIGHT;
        const line = y => svg.append(make("path", { d: `M${edge} ${y} C${(edge + toward) / 2} ${y} ${(edge + toward) / 2} ${middle} ${toward} ${middle}` }));
        shown.forEach((other, place) => {
          const [home, name, kind] = names[other];
          line(at(place));
          node(name, home + ":" + name, x, at(place), kind, () => walk(other));
        });
        if (more) { line(at(MOST)); node(`${more} more: see its page`, "", x, at(MOST), "more", () => { location = page(number); }); }
      };
      side(callers, BOX / 2 + 8, BOX + 8, (WIDTH - BOX) / 2);
      side(callees, WIDTH - BOX / 2 - 8, WIDTH - BOX - 8, (WIDTH + BOX) / 2);
      node(names[number][1], "Open the symbol's page", WIDTH / 2, middle, "center", () => { location = page(number); });
      caption.replaceChildren(...trail.length < 2 ? ["Callers and callees"] : trail.flatMap((step, place) => {
        const back = make("a", { href: page(step) }, names[step][1]);
        back.onclick = event => { event.preventDefault(); trail.length = place; walk(step); };
        return place ? ["→", back] : [back];
      }).concat(make("a", { href: page(number) }, "open " + names[number][1])));
      figure.querySelectorAll("svg").forEach(old => old.remove());
      figure.append(svg);
    });
    const walk = number => { trail.push(number); draw(number); };
    withNames(() => walk(first));
    return figure;
  };

  // Copies the source of a symbol's definitions in this file into its description.
  const copies = article => article.querySelectorAll('.defined a[href^="#"]').forEach(link => {
    const line = document.getElementById(link.hash.slice(1)), copy = make("div", { class: "code copy" });
    copy.append((line.closest("details") || line).cloneNode(true));
    copy.querySelectorAll("[id]").forEach(each => { each.dataset.line = each.id; each.removeAttribute("id"); });
    link.parentElement.after(copy);
  });

  // Links the name after each line to the using symbol, and copies the uses of accessors to their
  // slots.
  let numbers;
  const users = article => withNames(() => {
    numbers = numbers || new Map(names.map(([home, name], number) => [home + ":" + name, number]));
    const home = article.querySelector("h2 + p a").textContent;
    for (const line of article.querySelectorAll(".lines p")) {
      const last = line.lastChild, name = last.nodeType === Node.TEXT_NODE ? last.textContent.trim() : "";
      const number = numbers.get(name) ?? numbers.get(home + ":" + name);
      if (number !== undefined) last.replaceWith(make("a", { href: page(number) }, name));
    }
  });
  const slots = article => article.querySelectorAll('.by a[href^="#"]').forEach(link => {
    const accessor = document.getElementById(link.hash.slice(1));
    if (accessor !== article) accessor.querySelectorAll("h3 + .lines").forEach(lines => link.closest("details").append(lines.cloneNode(true)));
  });

  // Opens the target of the address: unfolds it, and completes a symbol's description once.
  const title = document.title;
  const open = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let at = target; at; at = at.parentElement) if (at.localName === "details") at.open = true;
    const article = target && target.closest("article");
    document.title = article ? article.querySelector("h2").textContent + " · " + title : title;
    if (article && !article.querySelector("figure")) {
      copies(article);
      slots(article);
      users(article);
      const rest = article.querySelector("h3, details"), figure = drawing(Number(article.dataset.n));
      if (rest) rest.before(figure); else article.append(figure);
    }
    if (target) target.scrollIntoView();
  };
  addEventListener("hashchange", open);
  open();
})();
