//! A static Rust program: collections, formatting, files, a panic that is caught.
use std::collections::BTreeMap;
use std::io::{BufRead, Read, Seek, SeekFrom, Write};

fn main() {
    let mut words = BTreeMap::new();
    for line in std::io::stdin().lock().lines() {
        for word in line.unwrap().split_whitespace() {
            *words.entry(word.to_owned()).or_insert(0u64) += 1;
        }
    }
    for (word, count) in &words {
        println!("{count:>4} {word}");
    }
    let mut file = std::fs::OpenOptions::new().read(true).write(true).create(true).truncate(true)
        .open("written-by-rust").unwrap();
    for i in 0..1000u32 {
        file.write_all(&i.to_le_bytes()).unwrap();
    }
    file.seek(SeekFrom::Start(400)).unwrap();
    let mut four = [0; 4];
    file.read_exact(&mut four).unwrap();
    println!("hundredth: {}", u32::from_le_bytes(four));
    let vector: Vec<f64> = (1..1_000_000).map(f64::from).collect();
    println!("sum of roots: {:.6}", vector.iter().map(|x| x.sqrt()).sum::<f64>());
    println!("missing: {}", std::fs::read("/nonexistent/file").unwrap_err());
    let caught = std::panic::catch_unwind(|| {
        let empty: Vec<i32> = Vec::new();
        empty[std::hint::black_box(3)]
    });
    println!("panic caught: {}", caught.is_err());
    println!("arguments: {:?}", std::env::args().skip(1).collect::<Vec<_>>());
    std::process::exit(7);
}
