//! Checks that the checked-in bindings match the header. Run with `--features bindgen`;
//! `STEELBANK_BLESS=1` updates them.
#![cfg(feature = "bindgen")]

#[test]
fn checked_in_bindings_match_the_header() {
    let generated = std::fs::read_to_string(env!("STEELBANK_GENERATED_BINDINGS")).unwrap();
    let checked_in = concat!(env!("CARGO_MANIFEST_DIR"), "/src/bindings.rs");
    if std::env::var_os("STEELBANK_BLESS").is_some() {
        std::fs::write(checked_in, &generated).unwrap();
    }
    assert_eq!(std::fs::read_to_string(checked_in).unwrap(), generated, "run with STEELBANK_BLESS=1");
}
