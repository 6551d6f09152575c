//! `steelbank doctor`: checks the installation, and prints its components, the project, timings and
//! memory use.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{CommandError, Exit, Shell, images};
use crate::engine::control::Control;
use crate::engine::{Contribs, Core, EngineStatus};
use crate::handle::Error;
use crate::{DescribeSymbolRequest, EvaluateRequest, IndexData, ListSystemsRequest, Steelbank, WhoRequest};

/// The image's description of itself.
#[derive(Debug, Deserialize)]
struct ImageIdentity {
    lisp: String,
    machine: String,
    packages: u64,
    dynamic_space_octets: u64,
    dynamic_space_used_octets: u64,
    modules: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Report {
    steelbank: &'static str,
    sbcl: String,
    /// The version of the `sbcl` on PATH, if it differs from the version that steelbank runs.
    sbcl_on_path: Option<String>,
    machine: String,
    /// The versions of the images in the cache that `--sbcl` can start.
    sbcl_images: Vec<String>,
    /// The folder of STEELBANK_HOME, if SBCL is loaded from files there.
    home: Option<String>,
    #[serde(skip)]
    is_embedded: bool,
    library: String,
    core: String,
    index: String,
    contribs: String,
    sbcl_sources: String,
    modules: Vec<String>,
    packages: u64,
    records: usize,
    heap_mib: u64,
    heap_used_mib: u64,
    resident_mib: Option<u64>,
    timings: Timings,
    checks: Vec<HealthCheck>,
    engine: EngineStatus,
    project: ProjectReport,
}

/// The project of --project, or else of the current folder.
#[derive(Debug, Serialize)]
struct ProjectReport {
    folder: Option<String>,
    /// The reason why a server cannot watch the folder, with a remedy.
    unwatched: Option<String>,
    systems: Vec<String>,
    /// The reason why no complete snapshot of the systems of --system can be created.
    no_snapshot: Option<String>,
    init_file: Option<String>,
    source_registry: Option<String>,
    cache: Option<String>,
    cache_mib: Option<f64>,
}

/// Durations in milliseconds.
#[derive(Debug, Serialize)]
struct Timings {
    /// From the start until SBCL was ready.
    start: f64,
    /// From the start until the first describe-symbol had its answer.
    first_answer: f64,
    /// Another describe-symbol.
    describe_symbol: f64,
    /// who-calls of mapcar.
    who_calls: f64,
}

#[derive(Debug, Serialize)]
struct HealthCheck {
    holds: bool,
    what: String,
}

/// The minimum number of calls of mapcar in SBCL's code that a correct build records. A build
/// without the cross references of SBCL's code has none; versions differ by a few.
const MIN_CALLS_OF_MAPCAR: usize = 400;

pub(super) fn run(shell: &Shell) -> Result<Exit, CommandError> {
    let report = examine(shell)?;
    if shell.options.json {
        shell.output.json(&json!(report))?;
    } else {
        shell.output.text(&text(&report))?;
    }
    Ok(if report.checks.iter().all(|check| check.holds) { Exit::Answered } else { Exit::Engine })
}

fn examine(shell: &Shell) -> Result<Report, CommandError> {
    let begin = Instant::now();
    let session = shell.session(false)?;
    let bank = session.bank()?;
    bank.lisp().wait_until_ready().map_err(Error::from)?;
    let start = begin.elapsed();
    let control = Control::default();
    bank.ask(&DescribeSymbolRequest::new("cl:mapcar"), &control)?;
    let first_answer = begin.elapsed();
    let again = Instant::now();
    bank.ask(&DescribeSymbolRequest::new("cl:car"), &control)?;
    let describe_symbol = again.elapsed();
    let again = Instant::now();
    bank.ask(&WhoRequest::calls("cl:mapcar"), &control)?;
    let who_calls = again.elapsed();

    let identity = identify(bank)?;
    let records = bank.index().record_count();
    let checks = vec![calls_of_mapcar(bank)?, form_numbers(bank)];
    let image = &shell.installation.image;
    Ok(Report {
        steelbank: env!("CARGO_PKG_VERSION"),
        sbcl_on_path: sbcl_on_path().filter(|version| *version != identity.lisp),
        sbcl: identity.lisp,
        machine: identity.machine,
        sbcl_images: images::list()
            .into_iter()
            .filter(|image| image.current)
            .map(|image| image.version)
            .collect(),
        home: std::env::var("STEELBANK_HOME").ok().filter(|home| match &image.core {
            Core::File(core) => core.starts_with(home),
            Core::Embedded => false,
        }),
        is_embedded: matches!(image.core, Core::Embedded),
        library: image.library.path().map_or_else(|| "in this program".to_owned(), file),
        core: match &image.core {
            Core::File(path) => file(path),
            Core::Embedded => match std::env::current_exe() {
                Ok(path) => format!("in this program: {}", file(&path)),
                Err(_) => "in this program".to_owned(),
            },
        },
        index: match &shell.installation.index {
            IndexData::File(path) => file(path),
            IndexData::Memory(bytes) => format!("in this program, {}", size(bytes.len() as u64)),
        },
        contribs: match &image.contribs {
            Contribs::Folder(path) => path.display().to_string(),
            Contribs::Packed { files, folder } => {
                let when = if folder.is_dir() { "" } else { " when needed" };
                format!("{} modules in this program, unpacked in {}{when}", files.len(), folder.display())
            }
            Contribs::None => {
                "none: there is no cache folder to unpack them in; set STEELBANK_CACHE".to_owned()
            }
        },
        sbcl_sources: match &shell.installation.sources {
            Some(path) if path.join("src").is_dir() => path.display().to_string(),
            _ => "not found: positions in SBCL's code are only as exact as SBCL's records".to_owned(),
        },
        modules: identity.modules,
        packages: identity.packages,
        records,
        heap_mib: identity.dynamic_space_octets >> 20,
        heap_used_mib: identity.dynamic_space_used_octets >> 20,
        resident_mib: resident_mib(),
        timings: Timings {
            start: milliseconds(start),
            first_answer: milliseconds(first_answer),
            describe_symbol: milliseconds(describe_symbol),
            who_calls: milliseconds(who_calls),
        },
        checks,
        engine: bank.status(),
        project: project(bank),
    })
}

fn project(bank: &Steelbank) -> ProjectReport {
    let settings = bank.project().settings();
    // Watch the project as a server does; the first listing of files starts the watcher.
    bank.project().watch();
    bank.project().lisp_files();
    let systems = bank.ask(&ListSystemsRequest::new(), &Control::new(Duration::from_secs(10)));
    let cache = super::installation::cache();
    ProjectReport {
        folder: bank.project().root().map(|root| root.display().to_string()),
        unwatched: bank.project().watch_refusal().map(crate::handle::unwatched),
        systems: systems
            .map(|answer| answer.systems.into_iter().map(|system| system.name).collect())
            .unwrap_or_default(),
        no_snapshot: bank.refused_snapshot().map(str::to_owned),
        init_file: settings.and_then(|settings| settings.userinit.as_deref()).map(|path| {
            format!("{}{}", path.display(), if path.is_file() { "" } else { " (there is none)" })
        }),
        source_registry: std::env::var("CL_SOURCE_REGISTRY").ok().filter(|value| !value.is_empty()),
        cache_mib: cache.as_deref().map(|folder| folder_size(folder) as f64 / 1_048_576.0),
        cache: cache.map(|folder| folder.display().to_string()),
    }
}

/// Sums the bytes of all readable files below `folder`.
fn folder_size(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.file_type() {
            Ok(kind) if kind.is_dir() => folder_size(&entry.path()),
            Ok(_) => entry.metadata().map_or(0, |metadata| metadata.len()),
            Err(_) => 0,
        })
        .sum()
}

fn identify(bank: &Steelbank) -> Result<ImageIdentity, CommandError> {
    let answer = bank
        .lisp()
        .run(Duration::from_secs(10), |on_lisp| on_lisp.call("identify", &()))
        .map_err(Error::from)?;
    Ok(crate::engine::read_json(&answer.bytes).map_err(Error::from)?)
}

/// Runs the `sbcl` on PATH to get its version. Ignores relative folders in PATH, which may be in an
/// untrusted repository.
fn sbcl_on_path() -> Option<String> {
    let path = std::env::var_os("PATH")?;
    let mut folders = std::env::split_paths(&path).filter(|folder| folder.is_absolute());
    let program = folders.find_map(|folder| Some(folder.join("sbcl")).filter(|program| program.is_file()))?;
    let said = Command::new(program).arg("--version").stdin(Stdio::null()).output().ok()?;
    Some(String::from_utf8(said.stdout).ok()?.trim().strip_prefix("SBCL ")?.to_owned())
}

/// Checks that SBCL's code has cross references.
fn calls_of_mapcar(bank: &Steelbank) -> Result<HealthCheck, CommandError> {
    let answer = bank.ask(&WhoRequest::calls("cl:mapcar"), &Control::default())?;
    let calls: usize = answer.users.iter().map(|user| user.uses).sum();
    Ok(HealthCheck {
        holds: calls >= MIN_CALLS_OF_MAPCAR,
        what: format!(
            "{} functions of SBCL call mapcar, at {calls} places (at least {MIN_CALLS_OF_MAPCAR} are expected)",
            answer.count
        ),
    })
}

/// Checks that three calls in one compiled function are recorded at three places. Some versions of
/// SBCL record wrong places.
fn form_numbers(bank: &Steelbank) -> HealthCheck {
    const CODE: &str = "(defpackage #:steelbank-doctor (:use #:cl))
(defun steelbank-doctor::callee (x) x)
(declaim (notinline steelbank-doctor::callee))
(defun steelbank-doctor::caller (x)
  (list (steelbank-doctor::callee x) (steelbank-doctor::callee (car x)) (steelbank-doctor::callee (cdr x))))";
    // The first form defines the package. evaluate reads form by form, so the package exists when
    // later forms are read.
    let control = Control::new(Duration::from_secs(20));
    let outcome = bank
        .run(&EvaluateRequest::new(CODE).values(), &control)
        .and_then(|_| bank.ask(&WhoRequest::calls("steelbank-doctor::callee").recorded(), &control));
    match outcome {
        Ok(answer) => {
            let calls: usize = answer.users.iter().map(|user| user.uses).sum();
            HealthCheck {
                holds: answer.count == 1 && calls == 3,
                what: format!("three calls in a compiled function are recorded at {calls} form numbers"),
            }
        }
        Err(error) => HealthCheck {
            holds: false,
            what: format!("a function could not be compiled and looked up: {error}"),
        },
    }
}

fn text(report: &Report) -> String {
    let mut lines = vec![
        format!("steelbank {} with SBCL {} ({})", report.steelbank, report.sbcl, report.machine),
        format!(
            "  home          {}",
            match (&report.home, report.is_embedded) {
                (Some(home), _) => home,
                (None, true) => "STEELBANK_HOME is not set: the SBCL inside this program runs",
                (None, false) => "the image of --sbcl",
            }
        ),
        format!("  library       {}", report.library),
        format!("  core          {}", report.core),
        format!("  index         {}, {} cross references", report.index, report.records),
        format!("  contribs      {}", report.contribs),
        format!("  SBCL sources  {}", report.sbcl_sources),
        format!("  preloaded     {}", report.modules.join(", ")),
        format!(
            "  heap          {} MiB used of {} MiB; resident {}",
            report.heap_used_mib,
            report.heap_mib,
            report.resident_mib.map_or("unknown".to_owned(), |mib| format!("{mib} MiB"))
        ),
        format!(
            "  timings       start {:.1} ms, first answer {:.1} ms, then describe-symbol {:.2} ms, who-calls {:.2} ms",
            report.timings.start,
            report.timings.first_answer,
            report.timings.describe_symbol,
            report.timings.who_calls
        ),
        format!(
            "  engine        {}, {} jobs done, {} threads abandoned",
            engine_state(&report.engine),
            report.engine.completed,
            report.engine.abandoned_threads
        ),
    ];
    if !report.sbcl_images.is_empty() {
        lines.push(format!("  --sbcl        starts {}", report.sbcl_images.join(", ")));
    }
    lines.extend(
        report.sbcl_on_path.iter().map(|version| {
            format!("  on PATH       SBCL {version}: its warnings and test results may differ")
        }),
    );
    let here = &report.project;
    let known = |text: &Option<String>, none: &str| text.clone().unwrap_or_else(|| none.to_owned());
    lines.extend([
        format!("  project       {}", known(&here.folder, "none here; select one with --project DIR")),
        format!(
            "  systems       {}",
            if here.systems.is_empty() { "none".to_owned() } else { here.systems.join(", ") }
        ),
        format!("  init file     {}", known(&here.init_file, "none is loaded")),
        format!("  registry      {}", known(&here.source_registry, "CL_SOURCE_REGISTRY is not set")),
        format!(
            "  cache         {}{}",
            known(&here.cache, "none: set HOME or STEELBANK_CACHE"),
            here.cache_mib.map(|mib| format!(", {mib:.1} MiB")).unwrap_or_default()
        ),
    ]);
    lines.extend(here.unwatched.iter().map(|sentence| format!("  watch         {sentence}")));
    lines.extend(here.no_snapshot.iter().map(|why| format!("  snapshot      none: {why}")));
    lines.extend(report.engine.reports.iter().map(|report| format!("  report        {report}")));
    lines.extend(report.checks.iter().map(|check| {
        format!("  {}  {}", if check.holds { "ok          " } else { "FAILED      " }, check.what)
    }));
    lines.join("\n")
}

fn engine_state(status: &EngineStatus) -> String {
    match serde_json::to_value(&status.state) {
        Ok(state) => state["state"].as_str().unwrap_or("unknown").to_owned(),
        Err(_) => "unknown".to_owned(),
    }
}

fn file(path: &Path) -> String {
    match fs::metadata(path) {
        Ok(metadata) => format!("{}, {}", path.display(), size(metadata.len())),
        Err(error) => format!("{} ({error})", path.display()),
    }
}

fn size(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / 1_048_576.0)
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// Reads the process's resident memory from the kernel.
fn resident_mib() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? >> 10)
}
