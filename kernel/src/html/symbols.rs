//! Names of TeX commands and their characters.

/// Letters, set in italics.
#[rustfmt::skip]
pub const LETTERS: &[(&str, &str)] = &[
    ("alpha", "α"), ("beta", "β"), ("gamma", "γ"), ("delta", "δ"), ("epsilon", "ε"),
    ("varepsilon", "ε"), ("zeta", "ζ"), ("eta", "η"), ("theta", "θ"), ("vartheta", "ϑ"),
    ("iota", "ι"), ("kappa", "κ"), ("lambda", "λ"), ("mu", "μ"), ("nu", "ν"), ("xi", "ξ"),
    ("pi", "π"), ("rho", "ρ"), ("sigma", "σ"), ("tau", "τ"), ("phi", "φ"), ("varphi", "φ"),
    ("chi", "χ"), ("psi", "ψ"), ("omega", "ω"), ("ell", "ℓ"), ("Gamma", "Γ"), ("Delta", "Δ"),
    ("Theta", "Θ"), ("Lambda", "Λ"), ("Xi", "Ξ"), ("Pi", "Π"), ("Sigma", "Σ"), ("Phi", "Φ"),
    ("Psi", "Ψ"), ("Omega", "Ω"),
];

/// Relations, set with space on both sides.
#[rustfmt::skip]
pub const RELATIONS: &[(&str, &str)] = &[
    ("le", "≤"), ("leq", "≤"), ("ge", "≥"), ("geq", "≥"), ("ne", "≠"), ("neq", "≠"),
    ("approx", "≈"), ("sim", "∼"), ("simeq", "≃"), ("equiv", "≡"), ("propto", "∝"), ("in", "∈"),
    ("notin", "∉"), ("subset", "⊂"), ("subseteq", "⊆"), ("to", "→"), ("rightarrow", "→"),
    ("leftarrow", "←"), ("gets", "←"), ("mapsto", "↦"), ("Rightarrow", "⇒"), ("implies", "⇒"),
    ("iff", "⇔"), ("ll", "≪"), ("gg", "≫"), ("mid", "|"),
];

/// Binary operators, set with space on both sides after a value.
#[rustfmt::skip]
pub const SIGNS: &[(&str, &str)] = &[
    ("times", "×"), ("cdot", "·"), ("pm", "±"), ("mp", "∓"), ("div", "÷"), ("cup", "∪"),
    ("cap", "∩"), ("setminus", "∖"), ("circ", "∘"), ("odot", "⊙"), ("oplus", "⊕"),
    ("otimes", "⊗"), ("land", "∧"), ("lor", "∨"),
];

/// Other symbols.
#[rustfmt::skip]
pub const PLAIN: &[(&str, &str)] = &[
    ("infty", "∞"), ("partial", "∂"), ("nabla", "∇"), ("sum", "∑"), ("prod", "∏"), ("int", "∫"),
    ("ldots", "…"), ("dots", "…"), ("cdots", "⋯"), ("forall", "∀"), ("exists", "∃"),
    ("emptyset", "∅"), ("top", "⊤"), ("Vert", "‖"), ("lVert", "‖"), ("rVert", "‖"), ("vert", "|"),
    ("lvert", "|"), ("rvert", "|"), ("langle", "⟨"), ("rangle", "⟩"), ("lfloor", "⌊"),
    ("rfloor", "⌋"), ("lceil", "⌈"), ("rceil", "⌉"), ("star", "⋆"), ("prime", "′"),
];
