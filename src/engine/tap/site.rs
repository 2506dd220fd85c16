//! Per-example gradients of a layer's parameters, from its input and output gradient.

use std::collections::BTreeMap;

use burn::module::ParamId;
use burn::prelude::*;

use super::convolution;
use super::recorder::TapeRecord;
use super::site_gradient::SiteGradient;
use crate::nn::{BatchTensor, Parameter, ParameterSite, Precision};

/// Parameters whose gradients are requested, and the path that computes them.
pub(super) struct RequestedGrads {
    /// Entry and shape of each parameter, by Burn's id.
    parameters: BTreeMap<ParamId, (usize, Vec<usize>)>,
    pub(super) path: ComputePath,
}

/// Path that forms instance gradients: CPU kernels or tensor operations.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum ComputePath {
    /// The lab's CPU kernels where they exist.
    Host,
    /// Tensor operations, with products of this precision.
    Device(Precision),
}

impl ComputePath {
    /// Returns the precision of products.
    pub(super) fn precision(self) -> Precision {
        match self {
            Self::Host => Precision::F32,
            Self::Device(precision) => precision,
        }
    }
}

impl RequestedGrads {
    /// Creates a request for all parameters except those that are masked out.
    pub(super) fn new(
        parameters: &[Parameter],
        path: ComputePath,
        masked_out: impl Fn(usize) -> bool,
    ) -> Self {
        let each = parameters.iter().enumerate().filter(|&(entry, _)| !masked_out(entry));
        let parameters = each.map(|(entry, p)| (p.id, (entry, p.shape.clone()))).collect();
        Self { parameters, path }
    }

    /// Returns the index of a parameter's entry; `None` if it is not requested.
    pub(super) fn entry(&self, id: ParamId) -> Option<usize> {
        self.parameters.get(&id).map(|(entry, _)| *entry)
    }
}

/// Computes the per-example gradients of each parameter that the loss depends on, by entry.
/// Records have `copies` rows per example.
pub(super) fn site_gradients(
    records: Vec<TapeRecord>,
    copies: usize,
    requested: &RequestedGrads,
) -> BTreeMap<usize, SiteGradient> {
    let mut all = BTreeMap::<usize, SiteGradient>::new();
    for record in records {
        for (entry, site_gradient) in gradients_of_site(record, copies, requested) {
            let site_gradient = match all.remove(&entry) {
                None => site_gradient,
                // The gradient of a tied parameter is the sum over its sites.
                Some(before) => SiteGradient::Instantiated(
                    before.into_instantiated() + site_gradient.into_instantiated(),
                ),
            };
            all.insert(entry, site_gradient);
        }
    }
    all
}

fn gradients_of_site(
    record: TapeRecord,
    copies: usize,
    requested: &RequestedGrads,
) -> Vec<(usize, SiteGradient)> {
    let TapeRecord { site, input, gradient } = record;
    let mut site_gradients = Vec::new();
    let mut add = |id: Option<ParamId>, make: &dyn Fn() -> SiteGradient| {
        if let Some(entry) = id.and_then(|id| requested.entry(id)) {
            site_gradients.push((entry, make()));
        }
    };
    match site {
        ParameterSite::Linear { weight, bias } => {
            let (input, gradient) = (merge_copies(input, copies), merge_copies(gradient, copies));
            let precision = requested.path.precision();
            add(Some(weight), &|| linear_weight_gradient(&input, &gradient, precision));
            add(bias, &|| sum_over_positions(gradient.clone()));
        }
        ParameterSite::Conv2d { window, groups, weight, bias, standardised } => {
            let (input, gradient) = (input.into_image(), gradient.into_image());
            add(bias, &|| sum_over_positions(channels_last(gradient.clone(), copies)));
            let gain = standardised.as_ref().and_then(|(_, _, gain)| gain.as_ref());
            let gain = gain.map(|(id, _)| *id);
            if [Some(weight), gain].iter().flatten().any(|id| requested.entry(*id).is_some()) {
                let g = convolution::instantiate_gradients(
                    window,
                    groups,
                    input,
                    gradient,
                    copies,
                    requested.path,
                );
                let (g, by_gain) = match standardised {
                    Some((rule, raw, gain)) => {
                        let gain = gain.map(|(_, values)| values);
                        let (by_raw, by_gain) = rule.vjp(raw, gain, g);
                        (by_raw, Some(by_gain))
                    }
                    None => (g, None),
                };
                add(Some(weight), &|| SiteGradient::Instantiated(g.clone().flatten(1, 2)));
                if let Some(by_gain) = by_gain {
                    add(gain, &|| SiteGradient::Instantiated(by_gain.clone()));
                }
            }
        }
        ParameterSite::Affine { gamma, beta } => {
            let (input, gradient) =
                (channels_last_or_merged(input, copies), channels_last_or_merged(gradient, copies));
            add(Some(gamma), &|| sum_over_positions(input.clone() * gradient.clone()));
            add(beta, &|| sum_over_positions(gradient.clone()));
        }
        ParameterSite::Embedding { weight } => {
            let [rows, steps] = input.clone().into_flat().dims();
            let tokens = input.into_flat().reshape([rows / copies, copies * steps]);
            let gradient = merge_copies(gradient, copies);
            let vocabulary = requested.parameters.get(&weight).map_or(0, |(_, shape)| shape[0]);
            add(Some(weight), &|| {
                SiteGradient::table(tokens.clone(), gradient.clone(), vocabulary)
            });
        }
    }
    site_gradients
}

/// Joins the copies and time steps of each example: `[examples, positions, features]`.
fn merge_copies(value: BatchTensor, copies: usize) -> Tensor<3> {
    let x = value.into_sequence();
    let [rows, steps, features] = x.dims();
    x.reshape([rows / copies, copies * steps, features])
}

/// Views the pixels of an image as positions: `[examples, positions, channels]`.
fn channels_last(x: Tensor<4>, copies: usize) -> Tensor<3> {
    let [rows, channels, height, width] = x.dims();
    let each = x.reshape([rows, channels, height * width]).swap_dims(1, 2);
    if copies == 1 {
        each
    } else {
        each.reshape([rows / copies, copies * height * width, channels])
    }
}

fn channels_last_or_merged(value: BatchTensor, copies: usize) -> Tensor<3> {
    match value {
        BatchTensor::Image(x) => channels_last(x, copies),
        other => merge_copies(other, copies),
    }
}

/// Computes the bias gradient: the sum over positions.
fn sum_over_positions(x: Tensor<3>) -> SiteGradient {
    let [n, _, features] = x.dims();
    SiteGradient::Instantiated(x.sum_dim(1).reshape([n, features]))
}

/// Computes the weight gradient of a linear layer: Σ over positions of inputᵀ · gradient.
fn linear_weight_gradient(
    input: &Tensor<3>,
    gradient: &Tensor<3>,
    precision: Precision,
) -> SiteGradient {
    let ([n, positions, inputs], [_, _, outputs]) = (input.dims(), gradient.dims());
    let (input, gradient) = (input.clone(), gradient.clone());
    if positions == 1 {
        return SiteGradient::OuterProduct {
            input: input.reshape([n, inputs]),
            gradient: gradient.reshape([n, outputs]),
        };
    }
    SiteGradient::Instantiated(precision.matmul(input.swap_dims(1, 2), gradient).flatten(1, 2))
}
