//! Data sets and models by name.

use epsilab::data::{self, Dataset, TextOptions};
use epsilab::nn::{Activation, Family, Model, ModelBuilder, models};
use epsilab::{Error, ErrorKind, Result};

const DATA: [&str; 8] =
    ["glyphs", "patterns", "sentences", "mnist", "fashion_mnist", "cifar10", "cifar100", "ag_news"];

const MODELS: [&str; 9] = [
    "papernot_cnn",
    "stevens_cifar_cnn",
    "simple_vgg",
    "wide_resnet_16_4",
    "resnet18",
    "resnet50",
    "bilstm",
    "mlp",
    "linear",
];

/// Refuses a data set that nobody knows.
pub fn data_name(name: &str) -> Result<&'static str> {
    known("--data", name, &DATA)
}

/// Refuses a model that nobody knows.
pub fn model_name(name: &str) -> Result<&'static str> {
    known("--model", name, &MODELS)
}

/// Refuses a list that is empty or names something twice.
pub fn distinct(option: &str, names: &[String]) -> Result<()> {
    if names.is_empty() {
        return Err(Error::setting(option, "[]", "a grid without values has no runs")
            .fix("name at least one, or leave the option out"));
    }
    match names.iter().enumerate().find(|(i, name)| names[..*i].contains(name)) {
        None => Ok(()),
        Some((_, name)) => {
            Err(Error::setting(option, name, "it is named twice").fix("name each once"))
        }
    }
}

fn known(option: &str, name: &str, all: &[&'static str]) -> Result<&'static str> {
    all.iter().find(|known| **known == name).copied().ok_or_else(|| {
        Error::setting(option, name, "there is none of this name")
            .fix(format!("choose from {}", all.join(", ")))
    })
}

/// The data set of this name.
///
/// # Errors
/// As reading it.
pub fn data(name: &str) -> Result<Dataset> {
    match data_name(name)? {
        "patterns" => data::patterns(),
        "sentences" => data::sentences(),
        "mnist" => data::mnist(),
        "fashion_mnist" => data::fashion_mnist(),
        "cifar10" => data::cifar10(),
        "cifar100" => data::cifar100(),
        "ag_news" => data::ag_news(&TextOptions::default()),
        _ => data::glyphs(),
    }
}

/// The model of this name for these data, with the initial parameters of this seed.
///
/// # Errors
/// Kind `Model` if it does not suit the data.
pub fn model(
    name: &str,
    data: &Dataset,
    activation: Option<Activation>,
    seed: u64,
) -> Result<Model> {
    let name = model_name(name)?;
    let words = data.vocabulary().map(data::Vocabulary::len);
    if words.is_some() != (name == "bilstm") {
        let what = format!("the model {name} on {}", data.name());
        let (why, fix) = match words {
            Some(_) => ("the data are texts", "use --model bilstm"),
            None => ("it reads texts", "use --data sentences or ag_news"),
        };
        return Err(Error::new(ErrorKind::Model, what, why).fix(fix));
    }
    let with = (activation, seed);
    match name {
        "stevens_cifar_cnn" => built(models::stevens_cifar_cnn(data), with),
        "simple_vgg" => built(models::simple_vgg(data, &[32, 64, 128], 2), with),
        "wide_resnet_16_4" => built(models::wide_resnet(data, 16, 4), with),
        "resnet18" => built(models::resnet18(data), with),
        "resnet50" => built(models::resnet50(data), with),
        "bilstm" => built(models::bilstm(data, words.unwrap_or(0), 64, 64), with),
        "mlp" => built(models::mlp(data, &[64]), with),
        "linear" => built(models::linear(data), with),
        _ => built(models::papernot_cnn(data), with),
    }
}

fn built<F: Family>(
    builder: ModelBuilder<F>,
    (activation, seed): (Option<Activation>, u64),
) -> Result<Model> {
    let builder = match activation {
        Some(activation) => builder.activation(activation),
        None => builder,
    };
    builder.seed(seed).build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_model_is_built_for_data_it_suits_and_refused_for_others() {
        let images = data::from_vecs(vec![0.0; 3 * 32 * 32], &[3, 32, 32], vec![0], 10).unwrap();
        let texts = data::sentences_with(4, 0, 1).unwrap();
        for name in MODELS {
            let (suits, other) = match name {
                "bilstm" => (&texts, &images),
                _ => (&images, &texts),
            };
            assert!(model(name, suits, None, 1).is_ok(), "{name}");
            let refused = model(name, other, None, 1).unwrap_err();
            assert!(refused.kind() == ErrorKind::Model && !refused.advice().is_empty());
        }
        let flat = data::from_vecs(vec![0.0; 6], &[6], vec![0], 2).unwrap();
        assert!(model("papernot_cnn", &flat, None, 1).is_err());
        assert!(model("mlp", &flat, Some(Activation::Relu), 1).is_ok());
    }

    #[test]
    fn names_nobody_knows_are_refused_with_those_there_are() {
        assert!(data("glyph").unwrap_err().advice().contains("glyphs, patterns"));
        assert!(model_name("").unwrap_err().advice().contains("papernot_cnn"));
        let twice = ["mlp".to_owned(), "mlp".to_owned()];
        assert!(distinct("--model", &twice).is_err() && distinct("--model", &[]).is_err());
        assert!(distinct("--model", &twice[..1]).is_ok());
    }
}
