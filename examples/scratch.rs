use std::time::Duration;
fn main() {
    let bank = steelbank::Steelbank::builder().start().unwrap();
    for form in std::env::args().skip(1) {
        match bank.evaluate(&form, Duration::from_secs(20)) {
            Ok(answer) => println!("{answer:?}"),
            Err(error) => println!("ERROR {error:?}"),
        }
    }
    println!("{:?}", bank.status());
}
