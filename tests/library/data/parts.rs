//! Parts of a data set: who is in one does not depend on who else is in the whole.

use super::*;

fn people(numbers: impl Iterator<Item = u32>) -> Dataset {
    let x: Vec<f32> = numbers.map(|i| i as f32).collect();
    let y = x.iter().map(|&x| x as u32 % 2).collect();
    data::from_vecs(x, &[1], y, 2).unwrap()
}

#[test]
fn removing_an_example_moves_no_other_between_the_parts() {
    let whole = people(0..600);
    for gone in (0..600).step_by(7) {
        // Somebody else joins at the end: the size of the whole is public.
        let other = people((0..601).filter(|&i| i != gone));
        let cuts: [fn(&Dataset) -> Dataset; 2] =
            [|data| data.split(0.8, 7).unwrap(), |data| data.limit(60, 0)];
        for cut in cuts {
            let (before, after) = (cut(&whole), cut(&other));
            let parts = [(before.train(), after.train()), (before.test(), after.test())];
            for (before, after) in parts {
                let stay = |part: &data::Examples| -> Vec<f32> {
                    let mut x = part.features_flat().to_vec();
                    x.retain(|&x| x != gone as f32 && x != 600.0);
                    x
                };
                assert_eq!(stay(before), stay(after), "without {gone}");
            }
        }
    }
}
