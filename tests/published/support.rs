//! Which accountant answers for which sampler under which relation, asked, not remembered.

use epsilab::privacy::{Accountant, Delta, Event, Gdp, GdpClt, Neighbouring, Pld, Rdp, Zcdp};

const RELATIONS: [Neighbouring; 3] =
    [Neighbouring::AddOrRemoveOne, Neighbouring::ZeroOutOne, Neighbouring::ReplaceOne];

/// Each kind of release, small enough for a quick answer.
fn releases() -> [(&'static str, Event); 5] {
    let (examples, noise_multiplier) = (10_000, 2.0);
    [
        ("all examples", Event::Gaussian { noise_multiplier, count: 10 }),
        (
            "Poisson samples",
            Event::PoissonGaussian { sampling_rate: 0.01, noise_multiplier, steps: 10 },
        ),
        (
            "Poisson samples, cut at a cap",
            Event::TruncatedPoissonGaussian {
                examples,
                sampling_rate: 0.01,
                batch_cap: 120,
                noise_multiplier,
                steps: 10,
            },
        ),
        (
            "fixed size, without replacement",
            Event::FixedSizeGaussian { examples, batch_size: 100, noise_multiplier, steps: 10 },
        ),
        ("shuffled epochs", Event::ShuffledEpochs { noise_multiplier, epochs: 10 }),
    ]
}

/// The accountants that answer, as one cell of the table.
fn who(event: &Event, relation: Neighbouring) -> String {
    let asked: [Box<dyn Accountant>; 5] = [
        Box::new(Pld::with_neighbouring(relation)),
        Box::new(Rdp::with_neighbouring(relation)),
        Box::new(Gdp::with_neighbouring(relation)),
        Box::new(Zcdp::with_neighbouring(relation)),
        Box::new(GdpClt::with_neighbouring(relation)),
    ];
    let answers: Vec<String> = asked
        .iter()
        .filter(|accountant| accountant.epsilon(std::slice::from_ref(event), Delta(1e-5)).is_ok())
        .map(|accountant| {
            format!("{}{}", accountant.name(), if accountant.is_approximate() { " ≈" } else { "" })
        })
        .collect();
    if answers.is_empty() { "–".into() } else { answers.join(", ") }
}

/// The table, a line per sampler and a column per relation.
pub fn table() -> String {
    let mut text = String::from("| sampler |");
    text.extend(RELATIONS.map(|relation| format!(" {relation} |")));
    text += "\n|---|---|---|---|\n";
    for (name, event) in releases() {
        text += &format!("| {name} |");
        text.extend(RELATIONS.map(|relation| format!(" {} |", who(&event, relation))));
        text.push('\n');
    }
    text
}
