//! Training in cells: live charts, interrupts, and errors for bad input.

use serde_json::json;

use crate::common::{Client, Start, folder};

#[test]
fn a_run_is_drawn_live_and_kept_when_interrupted_and_bad_input_is_an_error() {
    let home = folder();
    let env = vec![
        ("EPSILAB_HOME", home.path().display().to_string()),
        ("EPSILAB_DATA", home.path().join("no-such-folder").display().to_string()),
    ];
    let mut kernel = Client::start(Start { env, ..Start::default() });
    // A first cell with a question mark displays its value like any other.
    let spent = kernel.run_ok(
        "use epsilab::prelude::*;\nprivacy::epsilon(&[Event::gaussian(2.0)], Delta(1e-5))?",
    );
    let shown = spent.of("display_data").chain(spent.of("execute_result")).next().expect("shown");
    assert_eq!(shown["data"]["text/plain"], "epsilon 1.994 (gdp)");
    kernel.run_ok("let data = data::glyphs_with(2000, 200, 1)?;");
    kernel.run_ok("let model = models::papernot_cnn(&data).seed(1).build()?; let kept = 17;");
    kernel.run_ok(
        "let plan = DpSgd::new().target(Epsilon(3.0), Delta(1e-4)).batch_size(200).epochs(2000);",
    );

    // An interrupted run keeps its model and what it has spent.
    let id = kernel.send("let run = plan.train(&model, &data)?;");
    let mut updates = 0;
    kernel.listen(&id, |kind, _| {
        updates += usize::from(kind == "update_display_data");
        updates > 3
    });
    kernel.control("interrupt_request", json!({}));
    let ran = kernel.finish(&id);
    assert!(ran.ok(), "{:#}", ran.reply);
    let figure = ran.of("update_display_data").last().expect("a last figure").to_string();
    assert!(figure.contains("interrupted") && figure.contains("<svg"), "{figure:.300}");
    let output = kernel.run_ok(
        "println!(\"{} {} {} {}\", run.is_interrupted(), run.epsilon() > 0.0 && run.epsilon() < 3.0, \
         run.model().accuracy(&data)? == run.accuracy(), kept);",
    );
    assert_eq!(output.stream("stdout"), "true true true 17\n");
    let ledger = kernel.run_ok(
        "println!(\"{}\", (lab::ledger()?.epsilon(data.origin()) \
         - privacy::epsilon(&run.record().events(), Delta(1e-5))?.epsilon).abs() < 1e-9);",
    );
    assert_eq!(ledger.stream("stdout"), "true\n", "the ledger holds the steps taken, no more");

    // Each of these is an error with advice; variables are kept.
    let broken = home.path().join("broken-idx3-ubyte");
    std::fs::write(&broken, [0, 0, 8, 3, 0, 0, 0, 9, 0, 0, 0, 28]).expect("writing");
    let broken = broken.display();
    let bad = [
        ("data::mnist()?", "glyphs()"),
        ("data::idx(\"nowhere\", \"nowhere\")?", "what to do"),
        (&format!("data::idx(\"{broken}\", \"{broken}\")?"), "what to do"),
        ("data::from_vecs(vec![0.5; 4], &[2], vec![0, 7], 2)?", "label"),
        ("plan.clone().target(Epsilon(0.0), Delta(1e-5)).preview(&data)?", "epsilon"),
        ("plan.clone().target(Epsilon(1.0), Delta(1.5)).preview(&data)?", "delta"),
        ("plan.clone().batch_size(2001).preview(&data)?", "batch_size = 2001"),
        ("plan.clone().epochs(0).train(&model, &data)?", "epochs = 0"),
        ("models::load(\"no-model\")?", "no-model"),
    ];
    for (code, part) in bad {
        let (name, value, traceback) = kernel.run(code).error();
        let text = format!("{value}\n{traceback}");
        assert!(name == "Error" && text.contains(part), "{code}: {name}: {text}");
        assert!(text.contains("what to do"), "{code}: {text}");
    }
    assert_eq!(kernel.run_ok("kept").result(), "17");
    kernel.shut_down();
}
