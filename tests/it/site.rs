//! Tests `steelbank site`: link targets, equal runs, names with markup, and foreign folders. Tests
//! that SCIP indexes escape the same characters.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use protobuf::Message;
use scip::types::Index;
use steelbank::export::scip::{ScipFormat, write_scip};
use steelbank::export::site::write_site;
use steelbank::{Control, Steelbank};

use crate::asks::Asks;
use crate::fixtures::library_registry;
use crate::project::{folder, libraries_project, load, project};
use crate::texts::expect_text;

/// Returns all files below `folder` by relative path.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(at) = folders.pop() {
        for path in fs::read_dir(at).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().display().to_string();
                found.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    found
}

/// Returns the values of an attribute in a page. They have neither quotes nor blanks.
fn values<'a>(page: &'a str, attribute: &str) -> Vec<&'a str> {
    let parts = page.split(attribute).skip(1);
    parts.map(|rest| rest.split([' ', '>', '\n']).next().unwrap().trim_matches('"')).collect()
}

/// Checks that every link of the site has its target, that no page has an id twice, and that no
/// link leaves the site. Returns the number of links.
fn check_links(site: &BTreeMap<String, Vec<u8>>) -> usize {
    let pages: BTreeMap<&str, &str> = site
        .iter()
        .filter(|(name, _)| name.ends_with(".html"))
        .map(|(name, text)| (&**name, std::str::from_utf8(text).unwrap()))
        .collect();
    let ids: BTreeMap<&str, BTreeSet<&str>> = pages
        .iter()
        .map(|(name, text)| {
            let all = values(text, " id=");
            let ids: BTreeSet<&str> = all.iter().copied().collect();
            assert_eq!(ids.len(), all.len(), "{name} has an id twice");
            (*name, ids)
        })
        .collect();
    let mut count = 0;
    for (name, text) in &pages {
        for link in values(text, " href=").into_iter().chain(values(text, " src=")) {
            let (path, id) = link.split_once('#').unwrap_or((link, ""));
            let inner = path.strip_prefix("../");
            let target = match (inner, name.rsplit_once('/')) {
                _ if path.is_empty() => (*name).to_owned(),
                (Some(inner), Some(_)) => inner.to_owned(),
                (None, Some((folder, _))) => format!("{folder}/{path}"),
                (_, None) => path.to_owned(),
            };
            assert!(site.contains_key(&target), "{name} links to {link}: there is no {target}");
            let has = id.is_empty() || ids[&*target].contains(id);
            assert!(has, "{name} links to {link}: {target} has no such place");
            count += 1;
        }
        assert!(!text.contains("http:") || !values(text, " href=").iter().any(|link| link.contains(':')));
    }
    count
}

fn write(bank: &Steelbank, to: &Path) -> BTreeMap<String, Vec<u8>> {
    let summary = write_site(bank, to, &Control::default()).unwrap();
    let site = files(to);
    let bytes: usize = site.values().map(Vec::len).sum();
    let pages = site.keys().filter(|name| name.ends_with(".html")).count();
    assert_eq!((summary.pages, summary.bytes), (pages, bytes as u64));
    site
}

#[test]
fn links_have_targets_and_runs_are_equal() {
    own_process!([("CL_SOURCE_REGISTRY", library_registry())]);
    let (_home, bank) = libraries_project("site");
    let out = folder("site-out");
    let site = write(&bank, &out.join("site"));
    let count = check_links(&site);
    assert!(count > 12_000, "{count}");
    assert_eq!(write(&bank, &out.join("site")), site, "a second run over the first differs");
    // The page of a file contains its full text.
    let listed = String::from_utf8(site["files.html"].clone()).unwrap();
    for (path, _) in bank.loaded_files() {
        let Ok(relative) = path.strip_prefix(bank.root().unwrap()) else { continue };
        let relative = relative.to_str().unwrap();
        if !relative.contains("cl-ppcre") {
            continue;
        }
        let before = listed.split_once(&format!(">{relative}</a>")).unwrap().0;
        let name = before.rsplit_once("href=").unwrap().1;
        let page = String::from_utf8(site[name].clone()).unwrap();
        let code = page.split_once("<div class=code>").unwrap().1.split_once("</div>").unwrap().0;
        let mut text = String::new();
        for part in code.split('<') {
            text.push_str(part.split_once('>').map_or(part, |(_, text)| text));
        }
        let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
        let expected = fs::read_to_string(&path).unwrap();
        assert_eq!(text.trim_end(), expected.trim_end(), "{name}");
    }
    let bytes: usize = site.values().map(Vec::len).sum();
    let own = bank.loaded_files().into_iter().filter(|(path, _)| path.starts_with(bank.root().unwrap()));
    let source: usize = own.map(|(path, _)| fs::metadata(path).unwrap().len() as usize).sum();
    assert!(bytes < source * 6, "{bytes} bytes of pages of {source}");
}

const HOSTILE: &str = "(defpackage :host-shop (:use :cl)
  (:documentation \"</div><script>alert(1)</script>\"))
(in-package :host-shop)
(defun |<script>alert('x')</script>| (x) \"\"\"<img onerror=alert(2)>\" x)
(defvar *a&b* \"<b>\" \"</pre><h1>\")
(defun |../../up| () (|<script>alert('x')</script>| *a&b*))
(defclass |\"quoted\" name| () ((|a b| :accessor get-a :documentation \"<i>\")))
(defun |Case| () 1) (defun case* () (|Case|))
(defmacro with-it (&body body) `(progn (|../../up|) ,@body))
(defun use-it () (with-it (setf (get-a nil) 1)))
";

/// Characters that reorder text. None may be in a page, or in a SCIP index outside of the files'
/// own texts.
const REORDERING: [&str; 4] = ["\u{202e}", "\u{2066}", "\u{200f}", "\u{2028}"];

#[test]
fn markup_in_sources_is_escaped() {
    own_process!();
    let root = folder("site-hostile");
    fs::write(
        root.join("host-shop.asd"),
        "(defsystem \"host-shop\" :description \"<u>d</u>\u{202e}\" :components ((:file \"a <b>&c\") (:file \"d\u{202e}e\")))",
    )
    .unwrap();
    let reordering = REORDERING.concat();
    fs::write(
        root.join("d\u{202e}e.lisp"),
        format!(
            "(in-package :host-shop)\n(defun |x{reordering}| (|y{reordering}|) \"{reordering}\" |y{reordering}|)\n\
             (defclass |c{reordering}| () (|s{reordering}|) (:documentation \"{reordering}\"))\n\
             (defun f{reordering} () (|x{reordering}| 1)) ; {reordering}\n(defmethod g (({reordering} (eql '|{reordering}|))))"
        ),
    )
    .unwrap();
    fs::write(root.join("a <b>&c.lisp"), HOSTILE.replace("\"\"\"", "\"")).unwrap();
    let bank = project(&root, &root.join("cache"));
    load(&bank, "host-shop");
    let out = folder("site-hostile-out");
    let site = write(&bank, &out.join("site"));
    check_links(&site);
    for (name, page) in site.iter().filter(|(name, _)| name.ends_with(".html")) {
        let page = std::str::from_utf8(page).unwrap();
        assert_eq!(page.matches("<script").count(), 1, "{name}");
        for markup in ["<img", "<h1><", "onerror=alert(2)>", "<u>d", "</pre><h1>"] {
            assert!(!page.contains(markup), "{name} has {markup}");
        }
        assert!(!name.contains(".."), "{name}");
    }
    let has = |bytes: &[u8], text: &str| bytes.windows(text.len()).any(|bytes| bytes == text.as_bytes());
    for text in REORDERING {
        let raw: Vec<&String> =
            site.iter().filter(|(_, bytes)| has(bytes, text)).map(|(name, _)| name).collect();
        assert!(raw.is_empty(), "{text:?} in {raw:?}");
    }
    assert!(has(&site["f/d_e2_80_aee.html"], "|x\\u202e\\u2066\\u200f\\u2028|"));
    let scip = |format| {
        let mut bytes = Vec::new();
        write_scip(&bank, format, &[], &mut bytes, &Control::default()).unwrap();
        bytes
    };
    let mut index = Index::parse_from_bytes(&scip(ScipFormat::Protobuf)).unwrap();
    let json = String::from_utf8(scip(ScipFormat::Json)).unwrap();
    assert_eq!(protobuf_json_mapping::parse_from_str::<Index>(&json).unwrap(), index);
    let file =
        index.documents.iter_mut().find(|document| document.relative_path == "d\\u202ee.lisp").unwrap();
    assert!(std::mem::take(&mut file.text).contains(&reordering));
    for text in REORDERING {
        assert!(!json.contains(text) && !has(&index.write_to_bytes().unwrap(), text), "{text:?}");
    }
    let names: BTreeSet<String> = site.keys().map(|name| name.to_lowercase()).collect();
    assert_eq!(names.len(), site.len(), "files that differ in case alone");
    let made = String::from_utf8(site["f/a_20_3cb_3e_26c.html"].clone()).unwrap();
    assert!(made.contains("../../up|</a>"), "{made}");
}

#[test]
fn foreign_folder_is_not_overwritten() {
    own_process!();
    let root = folder("site-folders");
    fs::write(root.join("a.lisp"), "(defun a ())\n").unwrap();
    let bank = project(&root, &root.join("cache"));
    bank.done(&steelbank::LoadRequest::file(root.join("a.lisp")).failure_as_answer());
    let refused = |to: &Path, control: &Control| write_site(&bank, to, control).unwrap_err().to_string();
    let out = folder("site-folders-out");
    let foreign = out.join("foreign");
    fs::create_dir(&foreign).unwrap();
    fs::write(foreign.join("thesis.txt"), "years").unwrap();
    expect_text("foreign folder", &refused(&foreign, &Control::default()));
    assert_eq!(files(&foreign).len(), 1);
    let file = out.join("file");
    fs::write(&file, "").unwrap();
    expect_text("file in place of the folder", &refused(&file, &Control::default()));
    let cancelled = Control::default();
    cancelled.cancellation().cancel();
    refused(&out.join("new"), &cancelled);
    let left: BTreeSet<String> =
        fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(left, BTreeSet::from(["file".to_owned(), "foreign".to_owned()]), "something half is left");
    let empty = out.join("empty");
    fs::create_dir(&empty).unwrap();
    let whole = write(&bank, &empty);
    assert_eq!(write(&bank, &empty), whole);
    // An earlier site is replaced only as long as all its files are unchanged.
    let (page, marker) = (empty.join("index.html"), empty.join("steelbank-site.txt"));
    let odd: [(&str, &dyn Fn()); 5] = [
        ("another file", &|| fs::write(empty.join("f/notes.html"), "mine").unwrap()),
        ("a changed page", &|| fs::write(&page, "mine").unwrap()),
        ("a link in place of a page", &|| {
            fs::rename(&page, out.join("page")).unwrap();
            symlink(out.join("page"), &page).unwrap();
        }),
        ("a changed marker", &|| fs::write(&marker, fs::read_to_string(&marker).unwrap() + "x y\n").unwrap()),
        ("no marker", &|| fs::remove_file(&marker).unwrap()),
    ];
    for (what, change) in odd {
        change();
        let changed = files(&empty);
        let error = refused(&empty, &Control::default());
        assert!(error.contains("has files that steelbank site did not write"), "{what}: {error}");
        assert_eq!(files(&empty), changed, "{what}");
        fs::remove_dir_all(&empty).unwrap();
        assert_eq!(write(&bank, &empty), whole);
    }
    symlink(&empty, out.join("link")).unwrap();
    for link in ["link", "link/"] {
        expect_text("link in place of the folder", &refused(&out.join(link), &Control::default()));
    }
    assert_eq!(files(&empty), whole);
}

/// Limits the files that this process writes to `longest` bytes. `None` removes the limit.
fn limit_files(longest: Option<u64>) {
    // SAFETY: the calls change a limit and a signal handler of this process; the structure is one
    // of libc's.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        let mut limit: libc::rlimit = std::mem::zeroed();
        libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit);
        limit.rlim_cur = longest.unwrap_or(limit.rlim_max);
        libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit);
    }
}

#[test]
fn full_disk_keeps_the_previous_site() {
    own_process!();
    let root = folder("site-full");
    let text: String = (0..300).map(|number| format!("(defun f{number} () (f{}))\n", number / 2)).collect();
    fs::write(root.join("a.lisp"), text).unwrap();
    let bank = project(&root, &root.join("cache"));
    bank.done(&steelbank::LoadRequest::file(root.join("a.lisp")).failure_as_answer());
    let out = folder("site-full-out");
    let before = write(&bank, &out.join("site"));
    limit_files(Some(20_000));
    let error = write_site(&bank, &out.join("site"), &Control::default()).unwrap_err().to_string();
    limit_files(None);
    expect_text("full disk", &error);
    assert_eq!(files(&out.join("site")), before);
    assert_eq!(fs::read_dir(&out).unwrap().count(), 1, "something half is left");
}
