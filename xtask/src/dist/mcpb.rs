//! The bundle for MCP hosts with one-click installation, and the entry for the registry of MCP
//! servers.

use std::fs;

use serde_json::json;

use super::archive::{self, Item};
use super::formats::{LICENSE, OWNER, SERVER, SUMMARY};
use super::{Made, Release};

/// Creates the bundle.
pub(super) fn make(release: &Release, program: &[u8]) -> Made {
    let manifest = json!({
        "manifest_version": "0.3",
        "name": "steelbank",
        "display_name": "Steelbank: Common Lisp",
        "version": release.version,
        "description": SUMMARY,
        "author": { "name": OWNER },
        "license": LICENSE,
        "keywords": ["common-lisp", "sbcl"],
        "tools_generated": true,
        "compatibility": { "platforms": ["linux"] },
        "server": {
            "type": "binary",
            "entry_point": "server/steelbank",
            "mcp_config": {
                "command": "${__dirname}/server/steelbank",
                "args": ["--project", "${user_config.project}", "--system", "auto", "serve"],
            },
        },
        "user_config": {
            "project": {
                "type": "directory",
                "title": "Project",
                "description": "The folder of the Lisp project. The systems in its .asd files are loaded.",
                "required": true,
            },
        },
    });
    let mut items = vec![Item::text("manifest.json", format!("{manifest:#}\n"))];
    items.push(Item::program("server/steelbank", program));
    items.extend(release.notices()?);
    release.write(&name(release), &archive::zip(&items)?)
}

fn name(release: &Release) -> String {
    format!("steelbank-{}-linux-x64.mcpb", release.version)
}

/// Creates the registry entry, which names the packages and the bundle's checksum.
pub(super) fn entry(release: &Release) -> Made {
    let (name, version) = (name(release), &release.version);
    let bundle = fs::read(release.file(&name)).map_err(|error| format!("{name}: {error}"))?;
    let repository = format!("https://github.com/{OWNER}/steelbank");
    let arguments = ["--system", "auto", "serve"].map(|word| json!({ "type": "positional", "value": word }));
    let by_name = |kind: &str, hint: &str| {
        json!({
            "registryType": kind, "identifier": "steelbank", "version": version, "runtimeHint": hint,
            "transport": { "type": "stdio" }, "packageArguments": arguments,
        })
    };
    let bundle = json!({
        "registryType": "mcpb",
        "identifier": format!("{repository}/releases/download/v{version}/{name}"),
        "version": version,
        "fileSha256": archive::hex(&bundle),
        "transport": { "type": "stdio" },
    });
    let entry = json!({
        "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
        "name": SERVER,
        "title": "Steelbank: Common Lisp",
        "description": "Common Lisp code intelligence: definitions, uses, callers, impact, rename, with SBCL inside",
        "version": version,
        "repository": { "url": repository, "source": "github" },
        "packages": [by_name("npm", "npx"), by_name("pypi", "uvx"), bundle],
    });
    release.write("server.json", format!("{entry:#}\n").as_bytes())
}
