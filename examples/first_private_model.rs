//! The lines of the first notebook as a plain program: `cargo run --example first_private_model`.

use epsilab::prelude::*;

fn main() -> Result<()> {
    let data = data::mnist_or_glyphs()?;
    println!("{data}");
    let model = models::papernot_cnn(&data).build()?;
    let plan = DpSgd::new()
        .target(Epsilon(3.0), Delta(1e-5))
        .clip(0.1)
        .learning_rate(4.0)
        .batch_size(1024)
        .epochs(lab::by_profile(0.5, 8.0, 30.0));
    println!("{}", plan.preview(&data)?);
    let run = plan.train(&model, &data)?;
    println!("{run}\n\n{}", run.statement());
    Ok(())
}
