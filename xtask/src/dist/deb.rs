//! The Debian package.

use std::collections::BTreeSet;

use super::archive::{self, Item};
use super::formats::{MAINTAINER, SUMMARY, xz};
use super::{Made, Release};

/// The libraries that the program may require, each with its Debian package.
const LIBRARIES: [(&str, &str); 6] = [
    ("libc.so.6", "libc6"),
    ("libm.so.6", "libc6"),
    ("libdl.so.2", "libc6"),
    ("libpthread.so.0", "libc6"),
    ("librt.so.1", "libc6"),
    ("libgcc_s.so.1", "libgcc-s1"),
];

/// Creates the package.
pub(super) fn make(release: &Release, program: &[u8]) -> Made {
    let Release { version, epoch, .. } = release;
    let documents = "usr/share/doc/steelbank";
    let mut items = vec![Item::program("usr/bin/steelbank", program)];
    let mut copyright =
        b"steelbank is licensed under MIT or Apache-2.0, at your option; THIRD-PARTY-LICENSES.txt in \
        this folder has the notices of the linked libraries.\n\n"
            .to_vec();
    for item in release.notices()? {
        match item.path.starts_with("LICENSE") {
            true => copyright.extend(item.octets),
            false => items.push(item.below(documents)),
        }
    }
    items.push(Item::text(format!("{documents}/copyright"), copyright));
    let changes = Item::of("", crate::root().join("CHANGELOG.md"))?.octets;
    items.push(Item::text(format!("{documents}/changelog.gz"), archive::gzip(&changes)?));
    for (path, octets) in release.beside()? {
        items.push(match path.ends_with(".1") {
            true => Item::text(format!("usr/{path}.gz"), archive::gzip(&octets)?),
            false => Item::text(format!("usr/{path}"), octets),
        });
    }
    let octets: usize = items.iter().map(|item| item.octets.len()).sum();
    let control = format!(
        "Package: steelbank\nVersion: {version}\nSection: lisp\nPriority: optional\nArchitecture: amd64\n\
         Maintainer: {MAINTAINER}\nInstalled-Size: {}\nDepends: {}\nSuggests: git\nDescription: Common Lisp code intelligence\n \
         {SUMMARY}.\n The program includes SBCL and needs no other Lisp and no compiler.\n",
        octets.div_ceil(1024),
        depends(program, release.glibc)?,
    );
    let control = archive::gzip(&archive::tar(&[Item::text("./control", control)], *epoch)?)?;
    let items: Vec<Item> = items.into_iter().map(|item| item.below(".")).collect();
    let parts = [
        Item::text("debian-binary", "2.0\n"),
        Item::text("control.tar.gz", control),
        Item::text("data.tar.xz", xz(release, "data.tar", &archive::tar(&items, *epoch)?, "-6")?),
    ];
    release.write(&format!("steelbank_{version}_amd64.deb"), &archive::ar(&parts, *epoch))
}

/// Returns the package's dependencies: the packages of all libraries that the program's bytes name.
/// These include the libraries that the embedded SBCL library requires.
fn depends(program: &[u8], (major, minor): (u32, u32)) -> Result<String, String> {
    let mut needed = BTreeSet::new();
    for name in libraries(program) {
        let found = LIBRARIES.iter().find(|(library, _)| *library == name);
        needed.insert(found.ok_or_else(|| format!("LIBRARIES does not list the package of {name}"))?.1);
    }
    let lines = needed.iter().map(|package| match *package {
        "libc6" => format!("libc6 (>= {major}.{minor})"),
        other => other.to_owned(),
    });
    Ok(lines.collect::<Vec<_>>().join(", "))
}

/// Returns the strings in `octets` that are names of versioned libraries.
fn libraries(octets: &[u8]) -> impl Iterator<Item = &str> {
    let found = octets.windows(4).enumerate().filter(|(_, window)| window == b"\0lib").map(|(at, _)| at + 1);
    found.filter_map(|at| {
        let end = octets[at..].iter().take(64).position(|octet| *octet == 0)?;
        let name = std::str::from_utf8(&octets[at..at + end]).ok()?;
        let (_, version) = name.split_once(".so.")?;
        version.bytes().all(|octet| octet.is_ascii_digit()).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needed_libraries_are_read_from_elf() {
        let names = b"\0libm.so.6\0libc.so.6\0libgcc_s.so.1\0libsteelbank-sbcl.so\0library\0";
        assert_eq!(depends(names, (2, 34)).unwrap_or_default(), "libc6 (>= 2.34), libgcc-s1");
        assert!(depends(b"\0libzstd.so.1\0", (2, 34)).is_err());
    }
}
