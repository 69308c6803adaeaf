#![allow(missing_docs, clippy::unwrap_used)]
use ferroce_seeds::*;
fn main() {
    let a: Vec<u64> = std::env::args()
        .skip(1)
        .map(|a| a.parse().unwrap())
        .collect();
    let t = std::time::Instant::now();
    let mut bad = 0;
    for seed in a[0]..a[1] {
        let s = Scenario::of_seed(seed);
        let one = std::time::Instant::now();
        let trace = a.get(2).copied().unwrap_or(0) as usize;
        match std::panic::catch_unwind(|| run(&s, trace)) {
            Err(_) => {
                println!(
                    "seed {seed} PANIC {:?}",
                    s.faults.as_ref().map(|f| f.to_string())
                );
                bad += 1;
            }
            Ok(r) => match r.unwrap() {
                Ok(r) => {
                    if a.len() > 2 {
                        println!("{r:?}")
                    }
                }
                Err(f) => {
                    bad += 1;
                    println!(
                        "seed {seed} {} h{} {:?}: {f}",
                        s.preset,
                        s.hosts,
                        s.faults.as_ref().map(|f| f.to_string())
                    );
                    if trace > 0 {
                        let sh = shrink(&s, f);
                        println!("{}\n{}\nruns {}", sh.scenario, sh.failure, sh.runs);
                        let f = run(&sh.scenario, trace).unwrap().unwrap_err();
                        for l in &f.events {
                            println!("{l}");
                        }
                        println!("{}", f.state);
                    }
                }
            },
        }
        if one.elapsed().as_millis() > 300 {
            println!("seed {seed} slow {:?} {s}", one.elapsed());
        }
    }
    println!("{bad} bad, {:?}", t.elapsed());
}
