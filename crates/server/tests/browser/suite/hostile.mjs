// Model output can neither run script, nor fetch anything, nor dress up as the page.

import assert from "node:assert/strict";

const check = async (chat, mock) => {
  const prose = chat.lastAnswer().locator(".prose");
  await chat.text("The end of the hostile text.").waitFor();
  await prose.locator(".katex, .katex-error").first().waitFor();
  const found = await prose.evaluate((root) => {
    const all = [...root.querySelectorAll("*")];
    const ours = (node) => node.closest(".katex, .katex-error, .code");
    return {
      pwned: window.pwned,
      forbidden: all
        .filter((n) =>
          /^(script|style|iframe|object|embed|form|link|meta|base|video|audio|img|image|template|marquee|use|foreignobject)$/i.test(
            n.tagName,
          ),
        )
        .map((n) => n.tagName),
      svg: all.filter((n) => n.tagName === "svg" && !ours(n)).length,
      handlers: all
        .flatMap((n) => [...n.attributes])
        .filter((a) => /^on|^srcdoc$|^formaction$/i.test(a.name))
        .map((a) => a.name),
      styled: all.filter((n) => n.hasAttribute("style") && !ours(n)).map((n) => n.outerHTML),
      ids: all.filter((n) => n.id).length,
      classes: all.filter((n) => !ours(n)).flatMap((n) => [...n.classList]),
      links: all
        .filter((n) => n.tagName === "A" && n.hasAttribute("href"))
        .map((n) => [n.getAttribute("href"), n.rel, n.target]),
    };
  });
  assert.equal(found.pwned, undefined);
  assert.deepEqual(found.forbidden, []);
  assert.equal(found.svg, 0);
  assert.deepEqual(found.handlers, []);
  assert.deepEqual(found.styled, []);
  assert.equal(found.ids, 0);
  assert.deepEqual(
    found.classes.filter((c) => !["block", "table", "math", "remote-image"].includes(c)),
    [],
  );
  for (const [href, rel, target] of found.links) {
    assert.match(href, /^(https?:|mailto:)/);
    assert.equal(rel, "noopener noreferrer nofollow");
    assert.equal(target, "_blank");
  }
  assert.ok(found.links.length >= 3);
  assert.deepEqual(mock.state.leaks, []);
};

export default function suite(scenario) {
  scenario("hostile Markdown: streamed", { needs: "mock", open: { hostile: true } }, async (chat, { mock }) => {
    await chat.ask("hostile");
    await check(chat, mock);
    for (const link of await chat.lastAnswer().locator(".prose a:not([href])").all()) await link.click();
    await check(chat, mock);
  });

  scenario(
    "hostile Markdown: from the store, with the theme dark",
    { needs: "mock", open: { dark: true, hostile: true } },
    async (chat, { mock }) => {
      await chat.ask("hostile");
      await chat.page.reload();
      await check(chat, mock);
    },
  );

  scenario("hostile words of the user, titles and file names are text", { needs: "mock" }, async (chat) => {
    const evil = "<img src=x onerror=\"window.pwned='user'\"> hello";
    await chat.ask(evil);
    assert.equal(await chat.page.locator(".user-text").innerText(), evil);
    assert.equal(await chat.page.locator("img").count(), 0);
    assert.equal(await chat.page.evaluate(() => window.pwned), undefined);
  });

  scenario(
    "the sanitiser alone holds: nothing depends on the policy",
    { needs: "mock", open: { hostile: true } },
    async (chat, { base }) => {
      const left = await chat.page.evaluate(async (root) => {
        const { safeFragment } = await import(`${root}/js/sanitise.js`);
        const box = document.createElement("div");
        box.append(
          safeFragment(
            '<b onclick=x>a</b><script>1</script><a href=" javascript:x">b</a><p style="color:red" class="panel math" id=c data-x=y>d</p>',
          ),
        );
        return box.innerHTML;
      }, base);
      assert.equal(left, '<b>a</b><a>b</a><p class="math">d</p>');
    },
  );
}
