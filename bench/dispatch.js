// dispatch.js WAY WAVES LENGTH: the same work as in dispatch.cc for npm's fastq, concurrency 16.
// Prints the seconds that the tasks took, after as many to warm up; how many called back; their sum.
// WAY is when a task calls back: now, microtask (after the program's current step) or immediate (in
// the event loop's next turn); chain is immediate, and each task is pushed when the one before has
// called back, as in the package's own benchmark. Without the package it prints nothing.
'use strict'

let fastq
try {
  fastq = require('fastq')
} catch (error) {
  process.exit(0)
}

const [way, waves, length] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])]
let sum = 0
let done = 0

const workers = {
  now (item, callback) {
    sum += item
    callback(null)
  },
  microtask (item, callback) {
    sum += item
    queueMicrotask(callback)
  },
  immediate (item, callback) {
    sum += item
    setImmediate(callback)
  }
}

workers.chain = workers.immediate

async function run () {
  const queue = fastq(workers[way], 16)
  const total = waves * length
  sum = 0
  done = 0
  const start = process.hrtime.bigint()
  if (way === 'chain') {
    await new Promise((resolve) => {
      const next = () => ++done < total ? queue.push(done % length + 1, next) : resolve()
      queue.push(1, next)
    })
  } else {
    const called = () => { done++ }
    for (let wave = 0; wave < waves; wave++) {
      const drained = way === 'now' ? null : new Promise((resolve) => { queue.drain = resolve })
      for (let i = 1; i <= length; i++) {
        queue.push(i, called)
      }
      await drained
    }
  }
  return Number(process.hrtime.bigint() - start) / 1e9
}

run().then(run).then((seconds) => console.log(seconds, done, sum))
