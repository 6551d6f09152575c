//! The container image: the program and its libraries, without a shell.

use std::process::Command;

use serde_json::{Value, json};

use super::archive::{self, Item};
use super::formats::xz;
use super::{Made, Release, output};

/// Creates the image as an archive with one layer. The layer is compressed together with the
/// archive, because xz compresses better than the formats allowed for layers.
pub(super) fn make(release: &Release, program: &[u8]) -> Made {
    let Release { version, epoch, .. } = release;
    let mut items = vec![Item::program("usr/bin/steelbank", program)];
    items.extend(libraries(release)?);
    items.extend(release.notices()?.into_iter().map(|item| item.below("usr/share/doc/steelbank")));
    // Include the licences of glibc and of GCC's library at Debian's paths, if this machine has
    // them there.
    for name in ["libc6", "libgcc-s1"] {
        let path = format!("usr/share/doc/{name}/copyright");
        items.extend(Item::of(path.clone(), format!("/{path}")));
    }
    let layer = archive::tar(&items, *epoch)?;
    let configuration = json!({
        "architecture": "amd64",
        "os": "linux",
        "config": { "Entrypoint": ["/usr/bin/steelbank"], "Env": ["PATH=/usr/bin", "HOME=/root"] },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{}", archive::hex(&layer))] },
    });
    let kind = |part: &str| format!("application/vnd.oci.image.{part}");
    let configuration = configuration.to_string().into_bytes();
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": kind("manifest.v1+json"),
        "config": blob(&kind("config.v1+json"), &configuration),
        "layers": [blob(&kind("layer.v1.tar"), &layer)],
    });
    let manifest = manifest.to_string().into_bytes();
    let mut named = blob(&kind("manifest.v1+json"), &manifest);
    named["annotations"] = json!({
        "org.opencontainers.image.ref.name": version,
        "io.containerd.image.name": format!("docker.io/library/steelbank:{version}"),
    });
    let index = json!({ "schemaVersion": 2, "mediaType": kind("index.v1+json"), "manifests": [named] });
    let mut items = vec![
        Item::text("oci-layout", r#"{"imageLayoutVersion":"1.0.0"}"#),
        Item::text("index.json", index.to_string()),
    ];
    let blobs = [configuration, manifest, layer].into_iter();
    items.extend(blobs.map(|octets| Item::text(format!("blobs/sha256/{}", archive::hex(&octets)), octets)));
    let archive = xz(release, "oci.tar", &archive::tar(&items, *epoch)?, "-2")?;
    release.write(&format!("steelbank-{version}-oci.tar.xz"), &archive)
}

fn blob(kind: &str, octets: &[u8]) -> Value {
    json!({ "mediaType": kind, "digest": format!("sha256:{}", archive::hex(octets)), "size": octets.len() })
}

/// Returns the libraries that the program requires, including the loader, at the paths where the
/// program looks for them.
pub(super) fn libraries(release: &Release) -> Result<Vec<Item>, String> {
    let told = output(Command::new("ldd").arg(&release.program))?;
    let told = String::from_utf8_lossy(&told).into_owned();
    let paths = told.split_whitespace().filter(|word| word.starts_with('/'));
    let libraries = paths.map(|path| {
        let library = Item::of(path.trim_start_matches('/'), path)?;
        Ok(Item { mode: 0o755, ..library })
    });
    libraries.collect()
}
