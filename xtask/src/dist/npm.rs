//! The npm packages: one contains the program for this platform, the other starts that program.

use serde_json::{Value, json};

use super::archive::{self, Item};
use super::formats::{LICENSE, SERVER, SUMMARY};
use super::{Made, Release};

/// Starts the program of the platform's package. Forwards signals and the exit code.
const STARTER: &str = r#"#!/usr/bin/env node
"use strict";
const { spawn } = require("node:child_process");
const { constants } = require("node:os");

let program;
try {
  program = require.resolve("steelbank-linux-x64/bin/steelbank");
} catch {
  console.error("steelbank runs on x86-64 Linux with glibc; its package steelbank-linux-x64 is not installed here.");
  process.exit(3);
}
const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
child.on("error", (error) => {
  console.error(`steelbank does not start: ${error.message}`);
  process.exit(3);
});
child.on("exit", (code, signal) => process.exit(signal ? 128 + constants.signals[signal] : code));
"#;

/// Creates the packages.
pub(super) fn make(release: &Release, program: &[u8]) -> Made {
    let common = |name: &str| {
        json!({
            "name": name, "version": release.version, "description": SUMMARY, "license": LICENSE,
            "keywords": ["common-lisp", "sbcl", "mcp", "code-intelligence"],
        })
    };
    let mut platform = common("steelbank-linux-x64");
    platform["os"] = json!(["linux"]);
    platform["cpu"] = json!(["x64"]);
    platform["libc"] = json!(["glibc"]);
    pack(release, &platform, Item::program("bin/steelbank", program))?;
    let mut starter = common("steelbank");
    starter["bin"] = json!({ "steelbank": "steelbank.js" });
    starter["engines"] = json!({ "node": ">=18" });
    starter["optionalDependencies"] = json!({ "steelbank-linux-x64": release.version });
    starter["mcpName"] = json!(SERVER);
    pack(release, &starter, Item::program("steelbank.js", STARTER))
}

fn pack(release: &Release, manifest: &Value, item: Item) -> Made {
    let mut items = vec![Item::text("package.json", format!("{manifest:#}\n")), item];
    items.extend(release.notices()?);
    let items: Vec<Item> = items.into_iter().map(|item| item.below("package")).collect();
    let name = manifest["name"].as_str().unwrap_or_default();
    let packed = archive::gzip(&archive::tar(&items, release.epoch)?)?;
    release.write(&format!("{name}-{}.tgz", release.version), &packed)
}
