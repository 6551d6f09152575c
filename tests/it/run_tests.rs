//! run-tests: runs each test of a framework by itself.

use serde_json::json;

use crate::fixtures::library_registry;
use crate::tools_beside_sbcl::World;

/// Runs the tests of Debian libraries in FiveAM, RT and ptester: all pass, as upstream says.
#[test]
fn tests_of_libraries_pass() {
    own_process!([("CL_SOURCE_REGISTRY", library_registry())]);
    let world = World::of("cl-split-sequence", &[]);
    for (system, least) in [("split-sequence", 100), ("alexandria", 200), ("anaphora", 50)] {
        let answer = world.ask("run-tests", json!({ "system": system }));
        let count = answer["counts"]["passed"].as_u64().unwrap_or_default();
        assert!(
            count >= least && answer["counts"].as_object().unwrap().len() == 1,
            "{system}: {}",
            answer["counts"]
        );
    }
    let puri = world.ask("run-tests", json!({ "system": "puri" }));
    assert_eq!(
        (&puri["tests"][0]["status"], &puri["tests"][0]["passed"]),
        (&json!("passed"), &json!(128)),
        "{puri}"
    );
}
