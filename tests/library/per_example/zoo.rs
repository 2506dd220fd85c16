//! Gradients of the built-in models.

use epsilab::data::{self, Dataset};
use epsilab::nn::models;

fn images(n: usize, shape: &[usize]) -> Dataset {
    let size: usize = shape.iter().product();
    let features = (0..n * size).map(|i| ((i * 7919 + 3) % 1009) as f32 / 500.0 - 1.0).collect();
    data::from_vecs(features, shape, (0..n as u32).map(|i| i % 3).collect(), 3).unwrap()
}

#[test]
fn gradients_of_all_zoo_models_agree_with_the_reference() {
    let (grey, small) = (images(5, &[1, 28, 28]), images(3, &[3, 16, 16]));
    let tokens = (0..5 * 20).map(|i| ((i * i * 7 + i / 3) % 30) as f32).collect();
    let texts = data::from_vecs(tokens, &[20], vec![0, 1, 2, 0, 1], 3).unwrap();
    let built = [
        (models::papernot_cnn(&grey).seed(1).build(), &grey),
        (models::mlp(&grey, &[20, 10]).seed(1).build(), &grey),
        (models::stevens_mnist_cnn(&grey).seed(1).build(), &grey),
        (models::stevens_cifar_cnn(&small).seed(1).build(), &small),
        (models::simple_vgg(&small, &[8, 16], 2).seed(1).build(), &small),
        (models::wide_resnet(&small, 10, 1).gain(true).conv_bias(true).seed(1).build(), &small),
        (models::bilstm(&texts, 30, 8, 6).seed(1).build(), &texts),
    ];
    for (model, data) in built {
        let model = model.unwrap();
        let proof = model.check_gradients(data).unwrap();
        assert!(proof.passed(), "{}: {proof}", model.name());
        assert_eq!(proof.parameters.len(), model.network().parameters().len());
    }
}
