// Usage: browser.mjs CHROMIUM SITE PICTURES, where SITE is the site of examples/shop.
import assert from "node:assert/strict";
import { mkdirSync, statSync } from "node:fs";
import puppeteer from "puppeteer-core";

const [chromium, site, pictures] = process.argv.slice(2);
mkdirSync(pictures, { recursive: true });
const browser = await puppeteer.launch({ executablePath: chromium, args: ["--no-sandbox", "--disable-gpu"] });
const page = await browser.newPage();
const asked = [], troubles = [];
page.on("request", request => asked.push(request.url()));
page.on("pageerror", error => troubles.push(String(error)));
const url = path => `file://${site}/${path}`;
const at = () => decodeURIComponent(page.url().replace(url(""), ""));
const go = path => page.goto(url(path), { waitUntil: "load" });
const text = () => page.evaluate(() => document.querySelector("main").innerText);
const quiet = () => page.waitForFunction(() => !document.querySelector("article:target") || document.querySelector("article:target figure"));
let clicks = 0;
const click = async (selector, name) => {
  clicks += 1;
  const found = await page.evaluateHandle((selector, name) =>
    [...document.querySelectorAll(selector)].find(each => each.textContent.trim() === name), selector, name);
  const element = found.asElement();
  assert(element, `${at()} has no ${selector} called ${name}`);
  const before = page.url();
  await element.click();
  await page.waitForFunction(before => location.href !== before, { timeout: 1000 }, before).catch(() => {});
  await quiet();
};
const search = async typed => {
  await page.keyboard.press("/");
  await page.keyboard.type(typed);
  await page.waitForSelector(".found li");
};

let passed = 0, failed = 0;
const test = async (name, body) => {
  clicks = 0;
  try { await body(); passed += 1; console.log(`ok ${name}`); }
  catch (error) { failed += 1; console.log(`FAILED ${name}: ${error.stack}`); }
};

for (const theme of ["light", "dark"]) {
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: theme }]);
  for (const path of ["index.html", "packages.html", "unused.html", "s/shop.html", "f/cart.html", "f/cart.html#total"]) {
    await test(`${path} in ${theme}`, async () => {
      await go(path);
      await quiet();
      const file = `${pictures}/${path.replace(/[/#]/g, "-")}-${theme}.png`;
      await page.screenshot({ path: file });
      const back = await page.evaluate(() => getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number));
      assert(theme === "dark" ? back[0] < 60 : back[0] > 200, `its background is ${back}`);
      assert(statSync(file).size > 5000);
    });
  }
}

await test("a use leads to its definition, and back", async () => {
  await go("f/cart.html");
  await click(".code a:not(.d)", "with-discount");
  assert.equal(at(), "f/prices.html#with-discount");
  assert.match(await text(), /^with-discount/, "it is shown alone");
  await click(".defined a", "prices:15");
  assert.equal(at(), "f/prices.html#15");
  assert.match(await text(), /^prices.lisp/, "the text is shown");
  await page.goBack(); await page.goBack();
  assert.equal(at(), "f/cart.html");
});

await test("the standard's names lead to their list", async () => {
  await go("f/cart.html");
  await click(".code b", "reduce");
  assert.equal(at(), "p/common-lisp.html#reduce");
});

await test("a local name lights up where it is the same, and nowhere else", async () => {
  await go("f/cart.html");
  const local = await page.evaluateHandle(() => [...document.querySelectorAll(".code u")].find(token => token.textContent === "item"));
  await local.asElement().hover();
  const lit = await page.$$eval(".code .lit", tokens => tokens.map(token => token.textContent));
  assert.deepEqual(lit, ["item", "item"]);
});

await test("a form folds at its line's number", async () => {
  await go("f/cart.html");
  const height = () => page.evaluate(() => document.querySelector(".code").offsetHeight);
  const before = await height();
  const form = await (await page.$(".code summary")).boundingBox();
  await page.mouse.click(form.x + 20, form.y + form.height / 2);
  assert(await height() < before);
  await go("f/cart.html#5");
  assert.equal(await page.evaluate(() => document.getElementById("5").closest("details").open), true);
});

await test("the search finds by words, packages and names; the keyboard chooses", async () => {
  await go("index.html");
  await search("wd");
  assert.equal(await page.$eval(".found .on span", found => found.textContent), "with-discount");
  await page.keyboard.press("Escape");
  await search("shop:pri");
  await Promise.all([page.waitForNavigation(), page.keyboard.press("Enter")]);
  assert.equal(at(), "f/prices.html#price");
});

await test("the drawing is walked", async () => {
  await go("f/cart.html#total");
  await page.waitForSelector("article:target .center");
  const center = () => page.$eval("article:target .center text", found => found.textContent);
  assert.equal(await center(), "total");
  const step = async name => {
    const node = await page.evaluateHandle(name => [...document.querySelectorAll("article:target g.node")].find(each => each.querySelector("text").textContent === name), name);
    await node.asElement().click();
    await page.waitForFunction(name => document.querySelector("article:target .center text").textContent === name, {}, name);
  };
  await step("price");
  await step("items");
  await step("add-item");
  assert.equal(await page.$eval("article:target figcaption", trail => trail.innerText.replace(/\s+/g, "")), "total→price→items→add-itemopenadd-item");
  await click("article:target figcaption a", "open add-item");
  assert.equal(at(), "f/cart.html#add-item");
});

const question = (name, body) => test(name, async () => {
  await go("index.html");
  await body();
  assert(clicks <= 4, `${clicks} clicks`);
});
await question("who calls this and why", async () => {
  await search("price");
  await click(".found a span", "price");
  assert.match(await text(), /23\s+\(format t "~8d~%" \(price item\)\)\)\s+receipt/);
});
await question("what can I delete", async () => {
  await click("nav a", "Unused");
  assert.match(await text(), /Nothing uses these \d+\s+shop:empty-cart/);
});
await question("what does this macro make", async () => {
  await search("with-disc");
  await click(".found a span", "with-discount");
  assert.match((await text()).replace(/\s+/g, ""), /`\(let\(\(\*discount\*,percent\)\).*Whatitsexpansionsuse\*discount\*/);
});
await question("what breaks if I change this slot", async () => {
  await search("cart");
  await click(".found a span", "cart");
  await click("article:target details[id] summary b", "items");
  assert.match(await page.$eval("article:target details[id]", slot => slot.innerText), /9\s+writes\s+\(push item \(items cart\)\)\s+add-item/);
});
await question("where is this tested", async () => {
  await search("with-disc");
  await click(".found a span", "with-discount");
  assert.match(await text(), /Tested by\s+shop-tests:run through total/);
});

await test("the picture of README is made", async () => {
  await page.setViewport({ width: 1200, height: 860 });
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "light" }]);
  await go("f/cart.html#total");
  await quiet();
  await page.screenshot({ path: `${pictures}/site.png` });
});

await test("a small screen needs no scrolling to the side", async () => {
  await page.setViewport({ width: 390, height: 844 });
  for (const path of ["index.html", "f/cart.html#total", "f/cart.html", "unused.html", "p/shop.html", "s/shop.html"]) {
    await go(path);
    await quiet();
    await page.screenshot({ path: `${pictures}/${path.replace(/[/#]/g, "-")}-small.png` });
    const [wide, room] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
    assert(wide <= room, `${path} is ${wide} wide`);
  }
});

await test("all of it can be read without script", async () => {
  await page.setJavaScriptEnabled(false);
  await go("f/cart.html#total");
  const said = await page.$eval("main", main => main.innerText);
  for (const part of ["cart:15", "receipt", "shop-tests:run", "Calls", "with-discount"]) assert(said.includes(part), part);
});

await test("nothing is asked for but the site's own files, and no script fails", async () => {
  assert.deepEqual(asked.filter(each => !each.startsWith(url(""))), []);
  assert.deepEqual(troubles, []);
});

await browser.close();
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
