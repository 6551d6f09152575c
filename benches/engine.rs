//! Benchmarks the engine: the cost of a call into Lisp, and of queries compared with sb-introspect.
//!
//! `cargo bench --bench engine`. Compare ratios: a call into Lisp with a Rust call through a
//! pointer, a job with a round trip to a Rust thread, the index with sb-introspect in the same
//! image.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use steelbank::Control;
use steelbank::Kind;
use steelbank::actions::uses::who::WhoRequest;

use divan::{Bencher, black_box};
use steelbank::DescribeSymbolRequest;
use steelbank::Steelbank;

fn main() {
    let bank = bank();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let resident = status.lines().find(|line| line.starts_with("VmRSS")).unwrap_or("VmRSS: unknown");
    let start = bank.status().start_microseconds.unwrap_or_default();
    println!("start to ready: {:.1} ms; {resident}\n", start as f64 / 1000.0);
    divan::main();
}

fn bank() -> &'static Steelbank {
    static BANK: OnceLock<Steelbank> = OnceLock::new();
    BANK.get_or_init(|| Steelbank::builder().start().unwrap())
}

const ALLOWED: Duration = Duration::from_secs(60);

mod crossing {
    use super::*;

    #[divan::bench]
    fn call_in_rust(bencher: Bencher<'_, '_>) {
        fn plus_one(number: i64) -> i64 {
            number + 1
        }
        let function: fn(i64) -> i64 = black_box(plus_one);
        bencher.bench_local(|| function(black_box(1)));
    }

    /// Makes a thousand calls into Lisp in one job; divide the time by 1000.
    #[divan::bench(args = [1000])]
    fn entry_point_calls(bencher: Bencher<'_, '_>, count: i64) {
        let lisp = bank().lisp();
        bencher.bench_local(|| {
            lisp.run(ALLOWED, move |on_lisp| (0..count).try_fold(0, |sum, _| on_lisp.ping(sum))).unwrap()
        });
    }

    /// Runs a hundred operations in one job; divide the time by 100.
    #[divan::bench(args = [100])]
    fn operations(bencher: Bencher<'_, '_>, count: usize) {
        let lisp = bank().lisp();
        bencher.bench_local(|| {
            lisp.run(ALLOWED, move |on_lisp| {
                for _ in 0..count {
                    on_lisp.call("print-value", &["*PRINT-BASE*", "COMMON-LISP"])?;
                }
                Ok(())
            })
            .unwrap()
        });
    }
}

mod queue {
    use super::*;

    type Echo = (Sender<i64>, Receiver<i64>);

    #[divan::bench]
    fn round_trip_to_a_rust_thread(bencher: Bencher<'_, '_>) {
        let (ask, asked) = channel();
        let (answer, answered) = channel();
        std::thread::spawn(move || asked.into_iter().try_for_each(|number: i64| answer.send(number + 1)));
        let (ask, answered): Echo = (ask, answered);
        bencher.bench_local(|| {
            ask.send(1).unwrap();
            answered.recv().unwrap()
        });
    }

    #[divan::bench]
    fn round_trip_to_the_lisp_thread(bencher: Bencher<'_, '_>) {
        let lisp = bank().lisp();
        bencher.bench_local(|| lisp.run(ALLOWED, |on_lisp| on_lisp.ping(1)).unwrap());
    }
}

mod questions {
    use super::*;

    #[divan::bench]
    fn describe_symbol(bencher: Bencher<'_, '_>) {
        bencher.bench_local(|| {
            bank().ask(&DescribeSymbolRequest::new("mapcar").package("CL"), &Control::default()).unwrap()
        });
    }

    #[divan::bench]
    fn describe_symbol_with_a_value(bencher: Bencher<'_, '_>) {
        bencher.bench_local(|| {
            bank()
                .ask(&DescribeSymbolRequest::new("*print-base*").package("CL"), &Control::default())
                .unwrap()
        });
    }

    #[divan::bench]
    fn who_calls_mapcar(bencher: Bencher<'_, '_>) {
        bencher.bench_local(|| {
            bank().ask(&WhoRequest::calls("mapcar").package("CL").recorded(), &Control::default()).unwrap()
        });
    }

    #[divan::bench]
    fn who_calls_mapcar_by_sb_introspect(bencher: Bencher<'_, '_>) {
        let lisp = bank().lisp();
        bencher.bench_local(|| {
            lisp.run(ALLOWED, |on_lisp| {
                on_lisp.call("values", &["CL-USER", "(length (funcall 'sb-introspect:who-calls 'mapcar))"])
            })
            .unwrap()
        });
    }

    #[divan::bench]
    fn who_references_print_base(bencher: Bencher<'_, '_>) {
        bencher.bench_local(|| {
            bank()
                .ask(
                    &WhoRequest::new(Kind::References, "*print-base*").package("CL").recorded(),
                    &Control::default(),
                )
                .unwrap()
        });
    }

    #[divan::bench]
    fn who_references_print_base_by_sb_introspect(bencher: Bencher<'_, '_>) {
        let lisp = bank().lisp();
        bencher.bench_local(|| {
            lisp.run(ALLOWED, |on_lisp| {
                on_lisp.call(
                    "values",
                    &["CL-USER", "(length (funcall 'sb-introspect:who-references '*print-base*))"],
                )
            })
            .unwrap()
        });
    }
}
