// The official SDK's client keeps eight requests in flight while Lisp is ended in each way that
// ends.json lists. Every request must get exactly one answer, to its question. Arguments: the
// program, ends.json, an empty folder.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const [program, waysFile, folder] = process.argv.slice(2);
const ways = JSON.parse(readFileSync(waysFile, "utf8"));
const options = { timeout: 60_000 };
const failures = [];
let passed = 0;

function check(what, holds, detail = "") {
  if (holds) passed += 1;
  else failures.push(`${what}${detail && `: ${String(detail).slice(0, 400)}`}`);
}

writeFileSync(join(folder, "good.lisp"), "(defun cl-user::remembered (list) \"Kept.\" (mapcar #'car list))\n");
ways.forEach(({ form }, number) => writeFileSync(join(folder, `end-${number}.lisp`), form));

const transport = new StdioClientTransport({
  command: program,
  args: ["--no-userinit", "--dynamic-space-size", "512", "serve"],
  cwd: folder,
  env: { ...process.env, STEELBANK_CACHE: join(folder, "cache") },
  stderr: "ignore",
});
const client = new Client({ name: "deaths", version: "1" });
// Called for responses that match no request, and for input that is no message.
client.onerror = (error) => check("the client's own error", false, error);

/** The number of answers to each id. */
const answers = new Map();
await client.connect(transport);
const pid = transport.pid;
const receive = transport.onmessage;
transport.onmessage = (message, extra) => {
  if (message.id !== undefined && message.method === undefined) {
    answers.set(message.id, (answers.get(message.id) ?? 0) + 1);
  }
  receive(message, extra);
};
const sent = new Set();
const send = transport.send.bind(transport);
transport.send = (message, ...rest) => {
  if (message.id !== undefined && message.method !== undefined) sent.add(message.id);
  return send(message, ...rest);
};
// Once it has the tools' schemas, the client checks each structured answer.
await client.listTools();

/** Returns the text of a tool's answer, its additional notes, and whether it is an error. */
async function call(name, args) {
  try {
    const result = await client.callTool({ name, arguments: args }, undefined, options);
    const [text = "", ...notes] = (result.content ?? []).map((part) => part.text ?? "");
    return { text, notes: notes.join("\n"), failed: result.isError === true, result };
  } catch (error) {
    return { text: String(error.message), failed: true, error };
  }
}

async function until(what, holds) {
  for (const begun = Date.now(); Date.now() - begun < 60_000; await sleep(5)) {
    if (await holds()) return;
  }
  throw new Error(`${what}: it did not happen within a minute`);
}

async function restarts() {
  const { result } = await call("status", {});
  return result?.structuredContent?.restarts?.at(-1)?.number ?? 0;
}

/** Questions, each with a pattern that only its answer matches, or an answer that reports the load. */
const questions = [
  ["describe-symbol", { name: "cl:car" }, /^COMMON-LISP::CAR \[FUNCTION\]/],
  ["describe-symbol", { name: "cl:cdr" }, /^COMMON-LISP::CDR \[FUNCTION\]/],
  ["who-calls", { name: "cl:mapcar" }, /Functions that call COMMON-LISP::MAPCAR\b/],
  ["who-calls", { name: "cl:nconc" }, /Functions that call COMMON-LISP::NCONC\b/],
  ["find-definition", { name: "remembered" }, /good\.lisp|Symbol REMEMBERED not found[^]*is loading/],
  ["describe-symbol", { name: "cl:cons" }, /^COMMON-LISP::CONS \[/],
  ["who-references", { name: "cl:*print-base*" }, /COMMON-LISP::\*PRINT-BASE\*/],
];

async function comesBack() {
  await until("it comes back with what was loaded", async () => {
    const { text } = await call("describe-symbol", { name: "remembered" });
    if (text.includes("restart-lisp")) await call("restart-lisp", {});
    if (!text.startsWith("COMMON-LISP-USER::REMEMBERED [FUNCTION]")) return false;
    return (await call("status", {})).result?.structuredContent?.loading !== true;
  });
}

const loaded = await call("load-file", { path: "good.lisp" });
check("the first load", !loaded.failed, loaded.text);
let deaths = 0;
for (const [number, { form, spared, ends = false }] of ways.entries()) {
  const before = await restarts();
  let over = false;
  let died = false;
  const ending = call("load-file", { path: `end-${number}.lisp`, timeout_seconds: 1 }).then((answer) => {
    over = true;
    died ||= answer.text.includes("Lisp has died") || answer.error !== undefined;
    check(`${form}: load-file`, answer.failed || answer.text.includes(`end-${number}.lisp`), answer.text);
  });
  // Seven more requests, each repeated as soon as it is answered.
  const asking = questions.map(async ([name, args, wanted]) => {
    do {
      const { text, notes = "", failed, error } = await call(name, args);
      died ||= text.includes("Lisp has died") || error !== undefined;
      check(`${form}: ${name} ${args.name}`, failed ? !spared : `${text}\n${notes}`.search(wanted) >= 0, text);
    } while (!over);
  });
  await Promise.all([ending, ...asking]);
  died ||= (await restarts()) !== before;
  check(`${form}: it ends Lisp`, died || !ends, "it lives");
  if (died) {
    deaths += 1;
    await until(`${form}: Lisp is started again`, async () => (await restarts()) > before);
  }
  // Restart with a clean image, which also resets the count of deaths.
  const clean = await restarts();
  await call("restart-lisp", {});
  await until("a clean image", async () => (await restarts()) > clean);
  await comesBack();
}
check("half of the ways end Lisp", deaths >= 10, deaths);
check("it is one process", transport.pid === pid);
await client.close();
for (const id of sent) check(`request ${id} has one answer`, answers.get(id) === 1, `${answers.get(id) ?? 0} answers`);
for (const id of answers.keys()) check(`answer ${id} has a request`, sent.has(id));

for (const failure of failures) console.log(`FAILED: ${failure}`);
console.log(`${sent.size} requests, ${deaths} deaths; ${passed} passed, ${failures.length} failed`);
process.exit(failures.length === 0 ? 0 : 1);
