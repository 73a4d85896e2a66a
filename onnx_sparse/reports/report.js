"use strict";
// Draws the pictures of the page: scopes fold and unfold, a click shows what is known of a node.
// Every text of a model goes through textContent: it is never parsed as HTML.
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const PADDING = 10, CHARACTER = 7.5, LONGEST = 34;

  function element(tag, attributes, text) {
    const made = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    if (text !== undefined) made.textContent = text;
    return made;
  }

  function shortened(text) {
    return text.length > LONGEST ? "…" + text.slice(1 - LONGEST) : text;
  }

  class Picture {
    constructor(root, data) {
      this.root = root;
      this.data = data;
      this.canvas = root.querySelector(".canvas");
      this.details = root.querySelector(".details");
      this.scale = 0; // not fitted yet
      for (const button of root.querySelectorAll("button[data-zoom]")) {
        button.addEventListener("click", () => this.zoom(button.dataset.zoom));
      }
      this.panning();
      this.draw();
    }

    // What is shown of a node: the outermost folded scope that it is in, or the node itself.
    shown(node) {
      let found = "n" + node;
      for (let group = this.data.nodes[node].group; group >= 0; group = this.data.groups[group].parent) {
        if (!this.data.groups[group].open) found = "g" + group;
      }
      return found;
    }

    // A name without the scopes whose boxes it is in.
    within(whole, group) {
      const name = whole.replace(/^\//, "");
      const outer = group >= 0 ? this.data.groups[group].label + "/" : "";
      return outer && name.startsWith(outer) && name.length > outer.length ? name.slice(outer.length) : name;
    }

    draw() {
      const { nodes, edges, groups } = this.data;
      const graph = new dagre.graphlib.Graph({ compound: true });
      graph.setGraph({ rankdir: "TB", nodesep: 16, ranksep: 30, marginx: 10, marginy: 10 });
      graph.setDefaultEdgeLabel(() => ({}));
      const places = nodes.map((_, position) => this.shown(position));
      const visible = new Map();
      nodes.forEach((node, position) => {
        const key = places[position];
        if (visible.has(key)) return;
        const folded = key[0] === "g";
        const group = folded ? groups[Number(key.slice(1))] : null;
        const parent = folded ? group.parent : node.group;
        const lines = folded ? ["▸ " + this.within(group.label, parent), group.holds] : [node.label, this.within(node.name, parent)];
        if (lines[1] === lines[0]) lines.pop();
        visible.set(key, { lines: lines.filter(Boolean).map(shortened), node, position, folded, parent });
      });
      const opened = new Set();
      for (const item of visible.values()) {
        for (let group = item.parent; group >= 0; group = groups[group].parent) opened.add(group);
      }
      for (const group of opened) graph.setNode("g" + group, {});
      for (const group of opened) if (groups[group].parent >= 0) graph.setParent("g" + group, "g" + groups[group].parent);
      for (const [key, item] of visible) {
        const width = Math.max(...item.lines.map((line) => line.length)) * CHARACTER + 2 * PADDING;
        graph.setNode(key, { width, height: 12 + 15 * item.lines.length });
        if (item.parent >= 0) graph.setParent(key, "g" + item.parent);
      }
      for (const [from, to] of edges) {
        if (places[from] !== places[to]) graph.setEdge(places[from], places[to]);
      }
      dagre.layout(graph);
      this.render(graph, visible, opened);
    }

    render(graph, visible, opened) {
      const { width, height } = graph.graph();
      this.size = [Math.max(width, 1), Math.max(height, 1)];
      const svg = element("svg", { viewBox: `0 0 ${this.size[0]} ${this.size[1]}`, role: "group", "aria-label": this.root.dataset.title });
      svg.append(element("title", {}, this.root.dataset.title));
      const arrow = element("marker", { id: this.root.id + "-arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" });
      arrow.append(element("path", { d: "M0 0L8 4L0 8z", fill: "currentColor" }));
      svg.append(arrow);
      const labels = []; // above the edges
      for (const group of [...opened].sort((a, b) => a - b)) {
        const box = graph.node("g" + group);
        const made = element("g", { class: "scope", tabindex: 0, role: "button", "aria-label": "fold " + this.data.groups[group].label });
        const left = box.x - box.width / 2, top = box.y - box.height / 2;
        made.append(element("rect", { x: left, y: top, width: box.width, height: box.height, rx: 8 }));
        this.pressed(made, () => this.fold(group, false));
        svg.append(made);
        const label = element("g", { class: "scope" });
        label.append(element("text", { x: left + 8, y: top + 13, class: "small" }, "▾ " + shortened(this.within(this.data.groups[group].label, this.data.groups[group].parent))));
        label.addEventListener("click", () => this.fold(group, false));
        labels.push(label);
      }
      for (const edge of graph.edges()) {
        const points = graph.edge(edge).points.map((point) => `${point.x} ${point.y}`);
        svg.append(element("path", { class: "edge", d: "M" + points.join("L"), "marker-end": `url(#${this.root.id}-arrow)` }));
      }
      svg.append(...labels);
      for (const [key, item] of visible) svg.append(this.box(key, item, graph.node(key)));
      this.canvas.replaceChildren(svg);
      this.svg = svg;
      this.zoom(this.scale ? "keep" : "fit");
    }

    box(key, item, at) {
      const made = element("g", { class: "node " + (item.folded ? "folded" : item.node.kind), tabindex: 0, role: "button", "aria-label": item.lines.join(" ") });
      const round = item.node.kind === "input" || item.node.kind === "output" ? at.height / 2 : 5;
      made.append(element("rect", { x: at.x - at.width / 2, y: at.y - at.height / 2, width: at.width, height: at.height, rx: item.folded ? 5 : round }));
      item.lines.forEach((line, place) => {
        const y = at.y + 4 + 15 * (place - (item.lines.length - 1) / 2);
        made.append(" ", element("text", { x: at.x, y, "text-anchor": "middle", class: place ? "small" : "" }, line));
      });
      made.append(element("title", {}, item.folded ? this.data.groups[Number(key.slice(1))].label : item.node.name));
      this.pressed(made, () => (item.folded ? this.fold(Number(key.slice(1)), true) : this.choose(made, item.node)));
      return made;
    }

    pressed(made, action) {
      made.addEventListener("click", action);
      made.addEventListener("keydown", (event) => {
        if (event.key === "Enter" || event.key === " ") { event.preventDefault(); action(); }
      });
    }

    fold(group, open) {
      this.data.groups[group].open = open;
      this.draw();
    }

    choose(made, node) {
      for (const other of this.svg.querySelectorAll(".chosen")) other.classList.remove("chosen");
      made.classList.add("chosen");
      const table = document.createElement("table");
      for (const [key, value] of [["name", node.name], ...node.details]) {
        const row = table.insertRow();
        row.insertCell().textContent = key;
        row.insertCell().textContent = value;
      }
      this.details.replaceChildren(table);
    }

    zoom(how) {
      const room = (this.canvas.clientWidth || 800) - 4;
      if (how === "fit") this.scale = Math.min(1, Math.max(room / this.size[0], 0.6));
      if (how === "in") this.scale = Math.min(4, this.scale * 1.25);
      if (how === "out") this.scale = Math.max(0.05, this.scale / 1.25);
      this.svg.setAttribute("width", this.size[0] * this.scale);
      this.svg.setAttribute("height", this.size[1] * this.scale);
    }

    // A mouse drags the picture; a finger scrolls it as it scrolls the page.
    panning() {
      let last = null;
      this.canvas.addEventListener("pointerdown", (event) => { if (event.pointerType === "mouse") last = [event.clientX, event.clientY]; });
      window.addEventListener("pointerup", () => { last = null; });
      this.canvas.addEventListener("pointermove", (event) => {
        if (!last) return;
        this.canvas.scrollLeft -= event.clientX - last[0];
        this.canvas.scrollTop -= event.clientY - last[1];
        last = [event.clientX, event.clientY];
      });
      this.canvas.addEventListener("wheel", (event) => {
        if (!event.ctrlKey && !event.metaKey) return;
        event.preventDefault();
        this.zoom(event.deltaY < 0 ? "in" : "out");
      }, { passive: false });
    }
  }

  const pictures = JSON.parse(document.getElementById("pictures").textContent);
  for (const root of document.querySelectorAll(".picture")) new Picture(root, pictures[root.dataset.name]);
})();
