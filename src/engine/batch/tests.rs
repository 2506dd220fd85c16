use super::*;

fn mask(batch: &Batch, row: usize) -> Vec<f32> {
    let mut mask = vec![0.0; 64];
    batch.dropout_mask(row, 0, 0.5, &mut mask);
    mask
}

#[test]
fn dropout_masks_depend_on_the_example_index_and_not_on_the_position() {
    let batch = |indices: &[u32]| {
        let n = indices.len();
        let batch = Batch::with_copies(vec![0.0; 2 * n], &[1], vec![0; n], 2).unwrap();
        batch.with_indices(indices).unwrap().seed(9)
    };
    let (without, with) = (batch(&[3, 8]), batch(&[3, 5, 8]));
    for (position, moved) in [(0, 0), (1, 2)] {
        for copy in 0..2 {
            assert_eq!(mask(&without, 2 * position + copy), mask(&with, 2 * moved + copy));
        }
    }
    // Without indices the mask follows the position, and an added example shifts the masks.
    let unnumbered = |n: usize| Batch::new(vec![0.0; n], &[1], vec![0; n]).unwrap().seed(9);
    assert_ne!(mask(&unnumbered(2), 1), mask(&unnumbered(3), 2));
    let rows: Vec<_> = (0..6).map(|row| mask(&with, row)).collect();
    for (i, row) in rows.iter().enumerate() {
        assert!(!rows[..i].contains(row), "each copy of each example has its own mask");
    }
    assert!(unnumbered(2).with_indices(&[1]).is_err());
}
