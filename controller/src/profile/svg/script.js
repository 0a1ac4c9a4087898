"use strict";
(function () {
  const CHARACTER = 7.25, ROW = 18;
  const svg = document.documentElement;
  const $ = (id) => document.getElementById(id);
  const graph = $("graph"), head = $("head"), said = $("said"), words = $("words");
  const find = $("find"), found = $("found");
  const calls = Array.from(graph.querySelectorAll(".f"), (element) => {
    const number = (name) => parseFloat(element.getAttribute(name));
    const lines = element.querySelector("title").textContent.split("\n");
    const text = element.querySelector("text");
    const sign = text ? /^[▲▼] /.exec(text.textContent) : null;
    return {
      element, text, lines, name: lines[0], sign: sign ? sign[0] : "",
      left: number("x"), width: number("width"), depth: Math.round(number("y") / ROW),
    };
  });
  const of = new Map(calls.map((call) => [call.element, call]));
  let zoomed = null, here = null;

  const holds = (outer, inner) => outer.depth < inner.depth &&
    outer.left <= inner.left + 1e-6 && outer.left + outer.width >= inner.left + inner.width - 1e-6;

  function label(call, pixels) {
    const room = Math.floor((pixels - 6) / CHARACTER);
    if (room < 2) {
      if (call.text) call.text.textContent = "";
      return;
    }
    if (!call.text) {
      call.text = document.createElementNS(svg.namespaceURI, "text");
      call.text.setAttribute("x", "3");
      call.text.setAttribute("y", "13");
      call.element.appendChild(call.text);
    }
    const name = call.sign + call.name;
    call.text.textContent = name.length <= room ? name : name.slice(0, room - 1) + "…";
  }

  function place() {
    const all = svg.clientWidth || window.innerWidth;
    const left = zoomed ? zoomed.left : 0, width = zoomed ? zoomed.width : 100;
    for (const call of calls) {
      const isAbove = zoomed !== null && holds(call, zoomed);
      const isShown = zoomed === null || isAbove || call === zoomed || holds(zoomed, call);
      call.element.classList.toggle("hidden", !isShown);
      call.element.classList.toggle("above", isAbove);
      if (!isShown) continue;
      const x = isAbove ? 0 : (call.left - left) / width * 100;
      const share = isAbove ? 100 : call.width / width * 100;
      call.element.setAttribute("x", x + "%");
      call.element.setAttribute("width", share + "%");
      label(call, share / 100 * all);
    }
  }

  function arrange() {
    const top = $("top");
    if (top) head.setAttribute("height", Math.ceil(top.getBoundingClientRect().height));
    const space = Math.ceil(words.getBoundingClientRect().height);
    said.setAttribute("height", Math.max(space, 1));
    const headHeight = top ? Math.ceil(top.getBoundingClientRect().height) : 40;
    graph.setAttribute("y", headHeight + space);
    svg.setAttribute("height", headHeight + space + parseFloat(graph.getAttribute("height")));
    said.setAttribute("y", Math.max(headHeight, window.scrollY));
  }

  function tell(call) {
    words.textContent = "";
    if (call) {
      const name = document.createElementNS("http://www.w3.org/1999/xhtml", "b");
      name.textContent = call.name;
      words.appendChild(name);
      words.appendChild(document.createTextNode(" " + call.lines.slice(1).join(": ")));
    }
    arrange();
  }

  function goTo(call, isFocused) {
    if (here) {
      here.element.classList.remove("here");
      here.element.removeAttribute("tabindex");
    }
    here = call;
    if (!call) return;
    call.element.classList.add("here");
    call.element.setAttribute("tabindex", "0");
    if (isFocused) call.element.focus();
    tell(call);
  }

  function zoom(call) {
    zoomed = call;
    place();
    tell(call);
  }

  function search() {
    const wanted = find.value.toLowerCase();
    const hits = wanted === "" ? [] : calls.filter((call) => call.name.toLowerCase().includes(wanted));
    for (const call of calls) call.element.classList.remove("hit");
    for (const call of hits) call.element.classList.add("hit");
    graph.classList.toggle("searching", wanted !== "");
    const outermost = hits.filter((hit) => !hits.some((other) => holds(other, hit)));
    const share = outermost.reduce((sum, hit) => sum + hit.width, 0);
    found.textContent = wanted === "" ? "" : hits.length + " calls, " + share.toFixed(1) + " %";
    arrange();
  }

  function reset() {
    find.value = "";
    search();
    goTo(null);
    zoom(null);
  }

  /* From a call to the one above, below or beside it, of those that are shown. */
  function next(key) {
    const shown = calls.filter((call) => !call.element.classList.contains("hidden"));
    const first = shown[0] || null;
    if (!here || here.element.classList.contains("hidden")) return zoomed || first;
    const depth = here.depth + (key === "ArrowDown" ? 1 : key === "ArrowUp" ? -1 : 0);
    const row = shown.filter((call) => call.depth === depth);
    if (key === "ArrowDown") return row.find((call) => holds(here, call)) || here;
    if (key === "ArrowUp") return row.find((call) => holds(call, here)) || here;
    row.sort((one, other) => one.left - other.left);
    const at = row.indexOf(here) + (key === "ArrowRight" ? 1 : -1);
    return row[at] || here;
  }

  graph.addEventListener("click", (event) => {
    const call = of.get(event.target.closest(".f"));
    if (!call) return;
    goTo(call, false);
    zoom(call);
  });
  document.addEventListener("keydown", (event) => {
    const isTyping = event.target === find;
    if (event.key === "Escape") {
      reset();
      find.blur();
    } else if (isTyping || event.ctrlKey || event.metaKey || event.altKey) {
      return;
    } else if (event.key === "/") {
      find.focus();
    } else if (event.key.startsWith("Arrow")) {
      goTo(next(event.key), true);
    } else if (event.key === "Enter" && here && event.target.id !== "reset") {
      zoom(here);
    } else {
      return;
    }
    event.preventDefault();
  });
  find.addEventListener("input", search);
  $("reset").addEventListener("click", reset);
  window.addEventListener("resize", () => { place(); arrange(); });
  window.addEventListener("scroll", arrange);
  place();
  arrange();
})();
