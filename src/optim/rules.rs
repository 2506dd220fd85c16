//! The update rules, each a formula for one coordinate.

use super::AdamParams;
use super::elementwise::Formula;
use super::number::Number;

/// The number of inputs of a rule: gradient and variance of its noise.
pub(super) const INPUTS: usize = 2;

/// An update rule. Its first array is the parameter, the others are its state, zero at the start.
pub(super) trait Rule<const S: usize>: Formula<S, INPUTS> {
    /// The arrays of the state.
    const STATE: &'static [Slot];
}

/// An array of a rule's state.
pub(super) struct Slot {
    /// Name of the array in saved states.
    pub name: &'static str,
    /// Whether the array stays the same for all coordinates while every step updates all of them.
    pub shared: bool,
}

/// Plain gradient descent: theta <- theta - rate * (g + decay * theta).
#[derive(Clone, Copy)]
pub(super) struct Descent {
    /// The learning rate.
    pub rate: f64,
    /// Decoupled weight decay.
    pub decay: f64,
}

impl Descent {
    /// Returns the parameter after a step along `change`.
    #[inline(always)]
    fn step<N: Number>(self, parameter: N, change: N) -> N {
        if self.decay == 0.0 {
            parameter - change * self.rate
        } else {
            parameter.clone() - (change + parameter * self.decay) * self.rate
        }
    }
}

impl Rule<1> for Descent {
    const STATE: &'static [Slot] = &[];
}

impl Formula<1, INPUTS> for Descent {
    #[inline(always)]
    fn apply<N: Number>(&self, [parameter]: [N; 1], [gradient, _]: [N; INPUTS]) -> [N; 1] {
        [self.step(parameter, gradient)]
    }
}

/// Gradient descent with momentum, without dampening: v <- momentum * v + g, and a step along v, or
/// along g + momentum * v (Nesterov; Sutskever et al., 2013, in PyTorch's form).
#[derive(Clone, Copy)]
pub(super) struct Momentum {
    pub descent: Descent,
    pub momentum: f64,
    pub nesterov: bool,
}

impl Rule<2> for Momentum {
    const STATE: &'static [Slot] = &[Slot { name: "velocity", shared: false }];
}

impl Formula<2, INPUTS> for Momentum {
    #[inline(always)]
    fn apply<N: Number>(
        &self,
        [parameter, velocity]: [N; 2],
        [gradient, _]: [N; INPUTS],
    ) -> [N; 2] {
        let velocity = velocity * self.momentum + gradient.clone();
        let change = if self.nesterov {
            gradient + velocity.clone() * self.momentum
        } else {
            velocity.clone()
        };
        [self.descent.step(parameter, change), velocity]
    }
}

/// Adam (Kingma and Ba, 2015, algorithm 1). Each moment is a sum of weighted values and the total
/// of their weights, 1 - beta^t after t updates of a coordinate with the same beta. Their quotient
/// is the moment without the bias of its start at zero.
///
/// With `subtracts_noise_variance`, the second moment is the average of g² - phi, where phi is the
/// variance of the noise in g (DP-AdamBC: Tang, Shpilevskiy and Lécuyer, 2024, algorithm 1). For
/// constant phi this is the paper's v̂ - phi.
#[derive(Clone, Copy)]
pub(super) struct Adam {
    pub descent: Descent,
    pub moments: AdamParams,
    pub subtracts_noise_variance: bool,
}

impl Rule<5> for Adam {
    const STATE: &'static [Slot] = &[
        Slot { name: "first_moment", shared: false },
        Slot { name: "second_moment", shared: false },
        Slot { name: "first_weight", shared: true },
        Slot { name: "second_weight", shared: true },
    ];
}

impl Formula<5, INPUTS> for Adam {
    #[inline(always)]
    fn apply<N: Number>(
        &self,
        [parameter, first, second, first_weight, second_weight]: [N; 5],
        [gradient, variance]: [N; INPUTS],
    ) -> [N; 5] {
        let AdamParams { beta1, beta2, epsilon } = self.moments;
        let square = gradient.clone() * gradient.clone();
        let square = if self.subtracts_noise_variance { square - variance } else { square };
        let first = first * beta1 + gradient * (1.0 - beta1);
        let second = second * beta2 + square * (1.0 - beta2);
        let first_weight = first_weight * beta1 + (1.0 - beta1);
        let second_weight = second_weight * beta2 + (1.0 - beta2);
        let mean = first.clone() / first_weight.clone();
        let spread = second.clone() / second_weight.clone();
        let spread = if self.subtracts_noise_variance {
            spread.at_least(epsilon * epsilon).sqrt()
        } else {
            spread.sqrt() + epsilon
        };
        let parameter = self.descent.step(parameter, mean / spread);
        [parameter, first, second, first_weight, second_weight]
    }
}
