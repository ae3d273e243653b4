//go:build rehearse

package db

// rehearse makes every function that Write gets run twice: the first time its transaction is rolled
// back. A build with the tag rehearse is for tests. It shows functions that must not be run again.
const rehearse = true
