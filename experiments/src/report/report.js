// The page works on what is in it: nothing is loaded. Texts of files only ever become text nodes.
"use strict";
(() => {
  const PAGE_ROWS = 25;
  // A column with at most so many different values gets a list to pick from.
  const CHOICES_MAX = 12;
  const LONG_TEXT = 60;

  const make = (tag, properties = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(properties)) {
      if (name in element) element[name] = value;
      else element.setAttribute(name, value);
    }
    element.append(...children);
    return element;
  };

  /// Shown in a cell: five digits are enough there, the tip has all.
  const shown = (value, column) => {
    if (!column.number || value.length <= 7 || /^-?\d+$/.test(value)) return value === "NaN" ? "\u2013" : value;
    const number = Number(value);
    if (!Number.isFinite(number)) return value === "NaN" ? "\u2013" : value;
    const text = number.toPrecision(5);
    return text.includes("e") && Math.abs(number) >= 1e5 && Math.abs(number) < 1e15 ? String(Math.round(number)) : text;
  };

  // Where a value comes from.

  const tip = make("div", { id: "tip", role: "tooltip", hidden: true });
  document.body.append(tip);
  let tipCell = null;

  const hideTip = () => {
    tip.hidden = true;
    if (tipCell) {
      tipCell.classList.remove("shown");
      tipCell.removeAttribute("aria-describedby");
    }
    tipCell = null;
  };

  const showTip = (cell, provenance) => {
    if (tipCell === cell) return;
    hideTip();
    tipCell = cell;
    const { title, meaning, facts } = provenance();
    const list = make("dl");
    for (const [name, value] of facts) list.append(make("dt", {}, name), make("dd", {}, value));
    tip.replaceChildren(make("strong", {}, title), make("p", {}, meaning), list);
    tip.hidden = false;
    cell.classList.add("shown");
    cell.setAttribute("aria-describedby", "tip");
    // On a narrow screen the style docks it at the lower edge.
    const docked = matchMedia("(max-width: 40rem)").matches;
    if (docked) {
      tip.style.left = tip.style.top = "";
      return;
    }
    const at = cell.getBoundingClientRect();
    const box = tip.getBoundingClientRect();
    const left = Math.max(8, Math.min(at.left, innerWidth - box.width - 8));
    const below = at.bottom + 6;
    const top = below + box.height <= innerHeight - 8 ? below : Math.max(8, at.top - box.height - 6);
    tip.style.left = `${left}px`;
    tip.style.top = `${top}px`;
  };

  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") hideTip();
  });
  document.addEventListener("pointerdown", (event) => {
    if (tipCell && !tipCell.contains(event.target)) hideTip();
  });

  // Tables.

  class View {
    constructor(place, { columns, rows, facts }) {
      Object.assign(this, { place, columns, rows, facts });
      this.order = rows.map((_, idx) => idx);
      this.sort = null;
      this.choices = new Map();
      this.page = 0;
      this.words = rows.map((row) => row.join("\u0000").toLowerCase());
      this.hasMore = columns.some((column) => !column.main);
      this.isWhole = !this.hasMore;
      this.build();
      this.update();
    }

    build() {
      const tools = make("div", { className: "tools" });
      this.search = make("input", { type: "search", autocomplete: "off", spellcheck: false, placeholder: "any part of a value" });
      this.search.addEventListener("input", () => this.update());
      tools.append(make("label", {}, "Filter rows", this.search));
      this.columns.forEach((column, idx) => {
        if (column.key) this.addChoice(tools, column, idx);
      });
      if (this.hasMore) {
        const check = make("input", { type: "checkbox" });
        check.addEventListener("change", () => {
          this.isWhole = check.checked;
          this.draw();
        });
        tools.append(make("label", { className: "check" }, check, `all ${this.columns.length} columns`));
      }
      const reset = make("button", { type: "button" }, "Reset");
      reset.addEventListener("click", () => {
        this.search.value = "";
        for (const list of tools.querySelectorAll("select")) list.value = "";
        this.choices.clear();
        this.sort = null;
        this.update();
      });
      tools.append(reset);

      this.table = make("table", { role: "grid" });
      this.box = make("div", { className: "data" }, this.table);
      this.status = make("span", { role: "status" });
      this.back = make("button", { type: "button" }, "Previous");
      this.forth = make("button", { type: "button" }, "Next");
      this.back.addEventListener("click", () => this.turn(-1));
      this.forth.addEventListener("click", () => this.turn(1));
      const pager = make("div", { className: "pager" }, this.back, this.forth, this.status);
      this.place.replaceChildren(tools, this.box, pager);

      this.table.addEventListener("pointerover", (event) => this.point(event.target.closest("td")));
      this.table.addEventListener("pointerleave", () => {
        if (tipCell !== document.activeElement) hideTip();
      });
      this.table.addEventListener("focusin", (event) => this.point(event.target.closest("td")));
      this.table.addEventListener("focusout", hideTip);
      this.table.addEventListener("keydown", (event) => this.move(event));
      this.box.addEventListener("scroll", hideTip);
    }

    addChoice(tools, column, idx) {
      const values = [...new Set(this.rows.map((row) => row[idx]))];
      if (values.length < 2 || values.length > CHOICES_MAX) return;
      values.sort(column.number ? (a, b) => Number(a) - Number(b) : undefined);
      const list = make("select", {}, make("option", { value: "" }, "all"));
      values.forEach((value, at) => list.append(make("option", { value: String(at) }, value === "" ? "(none)" : value)));
      list.addEventListener("change", () => {
        if (list.value === "") this.choices.delete(idx);
        else this.choices.set(idx, values[Number(list.value)]);
        this.update();
      });
      tools.append(make("label", {}, column.name, list));
    }

    /// Which rows are shown, in which order.
    update() {
      const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
      const fits = (idx) =>
        words.every((word) => this.words[idx].includes(word)) && [...this.choices].every(([column, value]) => this.rows[idx][column] === value);
      this.order = this.rows.map((_, idx) => idx).filter(fits);
      if (this.sort) {
        const { idx, sign } = this.sort;
        const isNumber = this.columns[idx].number;
        const value = (row) => (isNumber ? (this.rows[row][idx] === "" ? NaN : Number(this.rows[row][idx])) : this.rows[row][idx]);
        // Rows without a value stand last in both directions; equal rows keep the order of the file.
        this.order.sort((a, b) => {
          const [left, right] = [value(a), value(b)];
          const [leftless, rightless] = isNumber ? [Number.isNaN(left), Number.isNaN(right)] : [left === "", right === ""];
          if (leftless || rightless) return leftless - rightless;
          return left < right ? -sign : left > right ? sign : 0;
        });
      }
      this.page = 0;
      this.draw();
    }

    turn(by) {
      this.page += by;
      this.draw();
      this.box.scrollTop = 0;
    }

    draw() {
      hideTip();
      const visible = this.columns.map((_, idx) => idx).filter((idx) => this.isWhole || this.columns[idx].main);
      const head = make("tr");
      for (const idx of visible) head.append(this.header(idx));
      const from = this.page * PAGE_ROWS;
      const rows = this.order.slice(from, from + PAGE_ROWS);
      const body = make("tbody");
      for (const row of rows) {
        const line = make("tr");
        for (const idx of visible) {
          const column = this.columns[idx];
          const value = this.rows[row][idx];
          const cell = make("td", { tabIndex: -1 }, shown(value, column));
          if (column.number) cell.classList.add("number");
          else if (value.length > LONG_TEXT) cell.classList.add("long");
          cell.row = row;
          cell.column = idx;
          line.append(cell);
        }
        body.append(line);
      }
      const first = body.querySelector("td");
      if (first) first.tabIndex = 0;
      this.table.replaceChildren(make("thead", {}, head), body);
      const until = from + rows.length;
      const all = this.rows.length;
      const n = this.order.length;
      const isPaged = n > PAGE_ROWS;
      const part = isPaged ? `${from + 1} to ${until} of ` : "";
      const whole = n === all ? `${all} rows` : isPaged ? `${n} (of ${all} rows)` : `${n} of ${all} rows`;
      this.status.textContent = n ? part + whole : `no row fits (${all} rows)`;
      this.back.disabled = this.page === 0;
      this.forth.disabled = until >= n;
      this.back.hidden = this.forth.hidden = !isPaged;
    }

    header(idx) {
      const column = this.columns[idx];
      const cell = make("th", { scope: "col", title: column.meaning });
      if (column.number) cell.classList.add("number");
      const isSorted = this.sort && this.sort.idx === idx;
      cell.setAttribute("aria-sort", !isSorted ? "none" : this.sort.sign > 0 ? "ascending" : "descending");
      const button = make("button", { type: "button" });
      const words = make("span", { className: "name" }, column.name.replaceAll("_", " "));
      button.append(words, make("span", { className: "unit" }, column.unit));
      button.addEventListener("click", () => {
        this.sort = !isSorted ? { idx, sign: 1 } : this.sort.sign > 0 ? { idx, sign: -1 } : null;
        this.update();
        const place = [...this.table.tHead.rows[0].cells].findIndex((other) => other.column === idx);
        this.table.tHead.rows[0].cells[place].querySelector("button").focus();
      });
      cell.column = idx;
      cell.append(button);
      return cell;
    }

    point(cell) {
      if (cell) showTip(cell, () => this.provenance(cell.row, cell.column));
    }

    /// Arrow keys walk from cell to cell.
    move(event) {
      const cell = event.target.closest("td");
      const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
      if (!cell || !step) return;
      const row = this.table.tBodies[0].rows[cell.parentElement.sectionRowIndex + step[0]];
      const next = row && row.cells[cell.cellIndex + step[1]];
      if (!next) return;
      event.preventDefault();
      cell.tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
    }

    provenance(row, idx) {
      const column = this.columns[idx];
      const value = this.rows[row][idx];
      const unit = column.unit && value !== "" ? ` ${column.unit}` : "";
      const keys = this.columns
        .map((key, at) => [key, this.rows[row][at]])
        .filter(([key, found]) => key.key && found !== "")
        .map(([key, found]) => `${key.name} ${found}`);
      const seed = this.columns.findIndex((other) => other.name === "seed");
      const facts = this.facts.map(([name, fact]) => {
        if (name === "file") return [name, `${fact}, row ${row + 1}`];
        if (name === "seed" && seed >= 0) return [name, this.rows[row][seed]];
        return [name, fact];
      });
      const more = [];
      if (column.source) more.push(["source", column.source]);
      if (keys.length) more.push(["row", keys.join(", ")]);
      return { title: `${column.name}: ${value === "" ? "empty" : value}${unit}`, meaning: column.meaning, facts: [...more, ...facts] };
    }
  }

  for (const details of document.querySelectorAll("details.rows")) {
    // A closed table is built when it is opened.
    const build = () => {
      if (!details.open || details.dataset.built) return;
      details.dataset.built = "yes";
      new View(details.querySelector(".view"), JSON.parse(details.querySelector("script").textContent));
    };
    details.addEventListener("toggle", build);
    build();
  }

  // A link to a closed table opens it.
  const open = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target && target.tagName === "DETAILS") target.open = true;
  };
  addEventListener("hashchange", open);
  open();

  // Commands.

  const copy = async (code) => {
    try {
      await navigator.clipboard.writeText(code.textContent);
    } catch {
      // Without permission or a secure page: select the text, and copy the selection.
      getSelection().selectAllChildren(code);
      if (!document.execCommand("copy")) return "Selected";
    }
    return "Copied";
  };
  for (const button of document.querySelectorAll("button.copy")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      button.textContent = await copy(button.parentElement.querySelector("code"));
      setTimeout(() => (button.textContent = "Copy"), 2000);
    });
  }

  // Figures on a narrow screen: legible and scrolled, or whole.

  for (const button of document.querySelectorAll("button.fit")) {
    button.hidden = false;
    const box = button.parentElement.querySelector(".scroll");
    button.addEventListener("click", () => {
      button.textContent = box.classList.toggle("fitted") ? "Legible size" : "Fit to width";
    });
  }
})();
