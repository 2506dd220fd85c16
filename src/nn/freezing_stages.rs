//! Stages of a network, which are frozen together in transfer learning.

use super::{LayerSpec, Network};
use crate::privacy::digits::pluralise;
use crate::{Error, ErrorKind, Result};

impl Network {
    /// Returns for each parameter tensor whether it is frozen if the first `groups` stages are, in
    /// the network's order.
    ///
    /// The stages of a residual network are its groups `group1`, `group2` and so on, and the first
    /// includes the stem. In other networks a stage ends with each pooling layer, and the last one
    /// where the features become plain. If all stages are frozen, only the last linear layer is
    /// trained (Kurakin et al., 2022, "Toward training at ImageNet scale with differential
    /// privacy", appendix G): also normalisation and linear layers before it are frozen.
    ///
    /// # Errors
    /// `Setting` if the network has no stages, or fewer than `groups`; the text says how many.
    pub(crate) fn frozen_stages(&self, groups: usize) -> Result<Vec<bool>> {
        let stages = self.stage_ends();
        if groups > stages.len() {
            let (why, fix) = match stages.len() {
                0 => (
                    "the model has no stages: it neither has groups of layers nor pools images"
                        .to_owned(),
                    "name layers instead, such as .freeze(\"0\"), or .train_only(\"2\")".to_owned(),
                ),
                n => (
                    format!("the model has {}", pluralise(n, "stage")),
                    format!("freeze at most {n}, which leaves only the last linear layer"),
                ),
            };
            return Err(
                Error::new(ErrorKind::Setting, format!("freeze_groups = {groups}"), why).fix(fix)
            );
        }
        let tensors = self.paths().len();
        let frozen = match groups {
            0 => 0,
            all if all == stages.len() => tensors - self.head_tensor_count(),
            some => stages[some - 1],
        };
        Ok((0..tensors).map(|i| i < frozen).collect())
    }

    /// Returns for each stage the number of parameter tensors up to its end.
    fn stage_ends(&self) -> Vec<usize> {
        let specs = self.specs();
        let is_number = |text: &str| text.parse::<u32>().is_ok();
        let grouped = |spec: &LayerSpec| {
            matches!(spec, LayerSpec::Group(group)
                if group.name.strip_prefix("group").is_some_and(is_number))
        };
        let by_groups = specs.iter().any(grouped);
        let (mut tensors, mut ends) = (0, Vec::new());
        for spec in specs {
            tensors += spec.parameters().len();
            let is_end = match spec {
                group if by_groups => grouped(group),
                LayerSpec::MaxPool2d(_) | LayerSpec::AvgPool2d(_) => true,
                LayerSpec::Flatten | LayerSpec::GlobalAvgPool => true,
                _ => false,
            };
            if is_end && tensors > ends.last().copied().unwrap_or(0) {
                ends.push(tensors);
            }
            if matches!(spec, LayerSpec::Flatten | LayerSpec::GlobalAvgPool) {
                break;
            }
        }
        ends
    }

    /// Returns the number of parameter tensors of the last layer that has some.
    pub(super) fn head_tensor_count(&self) -> usize {
        self.leaf_specs().last().map_or(0, |layer| layer.parameters().len())
    }
}

#[cfg(test)]
mod tests {
    use crate::Result;
    use crate::data::{self, Dataset};
    use crate::nn::{Model, models};

    fn images(shape: &[usize]) -> Dataset {
        let size: usize = shape.iter().product();
        data::from_vecs(vec![0.0; 2 * size], shape, vec![0, 1], 10).unwrap()
    }

    /// Returns the outermost layers and groups with a tensor that is not frozen.
    fn trained(model: &Model, groups: usize) -> Vec<String> {
        let network = model.network();
        let paths = network.paths().into_iter().zip(network.frozen_stages(groups).unwrap());
        let trained = paths.filter(|(_, frozen)| !frozen).map(|(path, _)| path);
        let mut layers: Vec<String> =
            trained.map(|path| path.split('.').next().unwrap().to_owned()).collect();
        layers.dedup();
        layers
    }

    #[test]
    fn residual_networks_freeze_the_stem_with_the_first_group() -> Result<()> {
        let data = images(&[3, 32, 32]);
        let model = models::resnet18(&data).seed(1).build()?;
        assert_eq!(trained(&model, 0).len(), 6);
        assert_eq!(trained(&model, 1), ["group2", "group3", "group4", "head"]);
        assert_eq!(trained(&model, 3), ["group4", "head"]);
        // Of the head, the normalisation is frozen too.
        let frozen = model.network().frozen_stages(4)?;
        assert_eq!(frozen.iter().filter(|&&frozen| !frozen).count(), 2);
        assert!(
            !frozen[frozen.len() - 2]
                && model.network().paths()[frozen.len() - 2].ends_with("3.weight")
        );
        let error = model.network().frozen_stages(5).unwrap_err().to_string();
        assert!(error.contains("has 4 stages") && error.contains("at most 4"), "{error}");
        let wide = models::wide_resnet(&data, 16, 4).seed(1).build()?;
        assert_eq!(trained(&wide, 2), ["group3", "head"]);
        assert_eq!(trained(&wide, 3), ["head"]);
        assert!(wide.network().frozen_stages(4).is_err());
        Ok(())
    }

    #[test]
    fn other_networks_end_a_stage_with_each_pooling_layer() -> Result<()> {
        let data = images(&[3, 32, 32]);
        let vgg = models::simple_vgg(&data, &[4, 8, 16], 2).seed(1).build()?;
        assert_eq!(trained(&vgg, 1), ["5", "7", "10", "12", "16", "18"]);
        assert_eq!(trained(&vgg, 2), ["10", "12", "16", "18"]);
        assert_eq!(trained(&vgg, 3), ["18"]);
        let papernot = models::papernot_cnn(&images(&[1, 28, 28])).seed(1).build()?;
        assert_eq!(
            (trained(&papernot, 1), trained(&papernot, 2)),
            (strings(&["3", "7", "9"]), strings(&["9"]))
        );
        // The last pair of convolutions has no pooling layer behind it.
        let stevens = models::stevens_cifar_cnn(&data).seed(1).build()?;
        assert!(stevens.network().frozen_stages(4).is_ok());
        assert!(stevens.network().frozen_stages(5).is_err());
        for flat in
            [models::mlp(&data, &[4]).seed(1).build()?, models::linear(&data).seed(1).build()?]
        {
            let error = flat.network().frozen_stages(1).unwrap_err().to_string();
            assert!(error.contains("no stages"), "{error}");
        }
        Ok(())
    }

    fn strings(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }
}
