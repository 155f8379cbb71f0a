// The page's pure modules, asked inside the browser; and the vendored files against their checksums.

import assert from "node:assert/strict";
import { MARKDOWN } from "../answers.mjs";
import { check } from "../vendor.mjs";

export default function suite(scenario) {
  scenario("vendored files are those of VERSIONS", {}, async () => {
    assert.deepEqual(check(), []);
  });

  scenario("event streams: split anywhere, all line ends, comments", {}, async (chat, { base }) => {
    const wrong = await chat.page.evaluate(async (root) => {
      const { events } = await import(`${root}/js/sse.js`);
      const text =
        ': hi\n\ndata: {"a":"é"}\n\nevent: x\r\nid: 7\r\ndata: one\r\ndata:two\r\n\r\ndata: three\r\rdata: lost';
      const bytes = new TextEncoder().encode(text);
      const wanted =
        '[{"event":"message","data":"{\\"a\\":\\"é\\"}","id":""},{"event":"x","data":"one\\ntwo","id":"7"},{"event":"message","data":"three","id":"7"}]';
      const failures = [];
      for (let size = 1; size <= bytes.length; size += 1) {
        const body = new ReadableStream({
          start(controller) {
            for (let at = 0; at < bytes.length; at += size) controller.enqueue(bytes.slice(at, at + size));
            controller.close();
          },
        });
        const found = [];
        for await (const event of events(body)) found.push(event);
        if (JSON.stringify(found) !== wanted) failures.push([size, JSON.stringify(found)]);
      }
      return failures;
    }, base);
    assert.deepEqual(wrong, []);
  });

  scenario("Markdown grown piece by piece is what it is at once", {}, async (chat, { base }) => {
    const texts = [
      MARKDOWN,
      "a\n\n- x\n\n  - y\n\n    ```js\n    1\n    ```\n- z\n\nb",
      "# t\npara\n===\n\n[x][late]\n\nmore\n\nand more\n\nend\n\n[late]: https://example.org",
      "| a | b |\n|---|---|\n| 1 | 2 |\n\ntail",
      "text\n\n```\nunclosed **code",
      "> q\n> r\n\n1. a\n2. b\n\n   c\n\n$$\nx\n$$\n\nz",
      "a **bold `x",
      "x\n\n<details><summary>s</summary>\n\ninside\n\n</details>\n\ny\n\nz",
    ];
    const wrong = await chat.page.evaluate(
      async ({ root, all }) => {
        const { MarkdownView } = await import(`${root}/js/render.js`);
        await import(`${root}/vendor/katex/katex.js`);
        const draw = (text, step) => {
          const box = document.createElement("div");
          const view = new MarkdownView(box);
          for (let at = step; at < text.length; at += step) view.update(text.slice(0, at), false);
          view.update(text, true);
          return box;
        };
        for (const text of all) draw(text, text.length);
        await new Promise((resolve) => setTimeout(resolve, 400));
        return all
          .flatMap((text) =>
            [1, 3, 17].map((step) => [step, draw(text, step).innerHTML, draw(text, text.length).innerHTML]),
          )
          .filter(([, grown, whole]) => grown !== whole);
      },
      { root: base, all: texts },
    );
    assert.deepEqual(wrong, []);
  });

  scenario("formulas and prices are told apart", {}, async (chat, { base }) => {
    const found = await chat.page.evaluate(async (root) => {
      const { lex, nodesOf } = await import(`${root}/js/markdown.js`);
      const tex = (text) => {
        const box = document.createElement("div");
        const tokens = lex(text);
        for (const token of tokens) box.append(nodesOf(token, tokens.links));
        return [...box.querySelectorAll(".math")].map((m) => m.dataset.tex);
      };
      return [
        "$5 and $10",
        "$x$ and $y_1$",
        "\\(a\\) \\[b\\]",
        "`$x$`",
        "$$\nc\n$$",
        "cost: $ 5 $",
        "a $x$5 b",
        "\\$x$",
      ].map(tex);
    }, base);
    assert.deepEqual(found, [[], ["x", "y_1"], ["a", "b"], [], ["c"], [], [], []]);
  });

  scenario("a long answer costs no more at its end than at its beginning", {}, async (chat, { base }) => {
    const { early, late } = await chat.page.evaluate(
      async ({ root, piece }) => {
        const { MarkdownView } = await import(`${root}/js/render.js`);
        const view = new MarkdownView(document.body.appendChild(document.createElement("div")));
        const whole = piece.repeat(100);
        const times = [];
        for (let at = 40; at < whole.length; at += 40) {
          const started = performance.now();
          view.update(whole.slice(0, at), false);
          times.push(performance.now() - started);
        }
        const median = (list) => list.sort((a, b) => a - b)[Math.floor(list.length / 2)];
        return { early: median(times.slice(200, 600)), late: median(times.slice(-400)) };
      },
      { root: base, piece: `${MARKDOWN}\n\n` },
    );
    console.log(
      `     200 KB of Markdown: an update takes ${early.toFixed(2)} ms at its beginning, ${late.toFixed(2)} ms at its end`,
    );
    assert.ok(late < 4 * early + 2, `${early} ms, then ${late} ms`);
  });

  scenario("a growing paragraph keeps its nodes, so a selection stays", {}, async (chat, { base }) => {
    const kept = await chat.page.evaluate(async (root) => {
      const { MarkdownView } = await import(`${root}/js/render.js`);
      const box = document.body.appendChild(document.createElement("div"));
      const view = new MarkdownView(box);
      view.update("One *two* three", false);
      const text = box.querySelector("p").firstChild;
      getSelection().setBaseAndExtent(text, 0, text, 3);
      view.update("One *two* three four **five** and six", false);
      return [getSelection().toString(), box.querySelector("p").firstChild === text];
    }, base);
    assert.deepEqual(kept, ["One", true]);
  });
}
