//! Batches for testing a plugin without a host.
//!
//! ```
//! # use flotilla_plugin::{Description, Nodes, Plugin, Pod, testing::Batch};
//! # struct Small;
//! # impl Plugin for Small {
//! #     fn describe() -> Description {
//! #         Description { node_fields: vec!["status.allocatable['cpu']".into()], ..Description::default() }
//! #     }
//! #     fn filter(_: &Pod, _: &str, nodes: &Nodes<'_>, out: &mut [u8]) -> Result<(), String> {
//! #         nodes.numbers(0).iter().zip(out).for_each(|(cpu, out)| *out = u8::from(cpu > 2000));
//! #         Ok(())
//! #     }
//! # }
//! let batch = Batch::of(2).pod(r#"{"metadata":{"labels":{"team":"red"}}}"#).numbers(&[1000, 4000]);
//! assert_eq!(batch.filter::<Small>(), Ok(vec![0, 1]));
//! ```

use crate::Plugin;

/// A batch of nodes.
#[derive(Debug, Clone)]
pub struct Batch {
    count: usize,
    pod: String,
    config: String,
    columns: Vec<Column>,
}

#[derive(Debug, Clone)]
enum Column {
    Texts(Vec<Option<String>>),
    Numbers(Vec<i64>),
}

impl Batch {
    /// A batch of `count` nodes; add columns in the order of the description.
    #[must_use]
    pub fn of(count: usize) -> Self {
        Self { count, pod: "{}".to_owned(), config: String::new(), columns: Vec::new() }
    }

    /// The pod, as JSON.
    #[must_use]
    pub fn pod(mut self, json: &str) -> Self {
        json.clone_into(&mut self.pod);
        self
    }

    /// `guestConfig`.
    #[must_use]
    pub fn config(mut self, text: &str) -> Self {
        text.clone_into(&mut self.config);
        self
    }

    /// A column of texts, one for each node.
    #[must_use]
    pub fn texts(mut self, texts: &[Option<&str>]) -> Self {
        self.columns.push(Column::Texts(texts.iter().map(|text| text.map(str::to_owned)).collect()));
        self
    }

    /// A column of numbers, one for each node.
    #[must_use]
    pub fn numbers(mut self, numbers: &[i64]) -> Self {
        self.columns.push(Column::Numbers(numbers.to_vec()));
        self
    }

    /// The result of a plugin's filter.
    ///
    /// # Errors
    /// The plugin's error.
    pub fn filter<P: Plugin>(&self) -> Result<Vec<u8>, String> {
        let (mut block, at) = self.block(1);
        crate::filter::<P>(&mut block)?;
        Ok(block[at..at + self.count].to_vec())
    }

    /// The result of a plugin's score.
    ///
    /// # Errors
    /// The plugin's error.
    pub fn score<P: Plugin>(&self) -> Result<Vec<i64>, String> {
        let (mut block, at) = self.block(8);
        crate::score::<P>(&mut block)?;
        let score = |bytes: &[u8]| bytes.try_into().map(i64::from_le_bytes).unwrap_or(0);
        Ok(block[at..at + 8 * self.count].chunks_exact(8).map(score).collect())
    }

    fn block(&self, width: usize) -> (Vec<u8>, usize) {
        fn put(block: &mut Vec<u8>, bytes: &[u8]) -> usize {
            block.resize(block.len().next_multiple_of(8), 0);
            block.extend_from_slice(bytes);
            block.len() - bytes.len()
        }
        let word = |number: usize| u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes();
        let mut block = vec![0; 40];
        let pod = put(&mut block, self.pod.as_bytes());
        let config = put(&mut block, self.config.as_bytes());
        let mut columns = Vec::new();
        for column in &self.columns {
            let words = match column {
                Column::Numbers(numbers) => {
                    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
                    [1, put(&mut block, &bytes), 0, 0]
                }
                Column::Texts(texts) => {
                    let mut known: Vec<&str> = Vec::new();
                    let mut numbers = Vec::new();
                    for text in texts {
                        let number = text.as_deref().map_or(usize::MAX, |text| {
                            known.iter().position(|known| *known == text).unwrap_or_else(|| {
                                known.push(text);
                                known.len() - 1
                            })
                        });
                        numbers.extend(word(number));
                    }
                    let values = put(&mut block, &numbers);
                    let places: Vec<_> =
                        known.iter().map(|text| (put(&mut block, text.as_bytes()), text.len())).collect();
                    let list: Vec<u8> =
                        places.iter().flat_map(|&(at, len)| [word(at), word(len)].concat()).collect();
                    [0, values, put(&mut block, &list), known.len()]
                }
            };
            columns.extend(words.into_iter().flat_map(word));
        }
        let list = put(&mut block, &columns);
        let at = put(&mut block, &vec![0; width * self.count]);
        let header = [self.count, pod, self.pod.len(), config, self.config.len(), list, self.columns.len(), at, 0, 0];
        for (place, number) in header.into_iter().enumerate() {
            block[4 * place..4 * place + 4].copy_from_slice(&word(number));
        }
        (block, at)
    }
}
