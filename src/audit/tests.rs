//! Verdicts on all methods and controls, with fixed seeds.

use super::*;

fn audited(name: &str, options: &Options) -> AuditReport {
    let report = method_named(name, options).unwrap().run().unwrap();
    eprintln!("{} {}", report.seconds, serde_json::to_string(&report).unwrap());
    report
}

#[test]
fn all_verdicts() {
    for subject in subjects() {
        audited(subject.name, &Options { trials: 2000, ..Options::default() });
    }
    audited("dp-sgd", &Options::default());
}
