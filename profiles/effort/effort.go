// Package effort lists how much a model can be asked to reason.
package effort

// Levels returns all levels, from none to the highest. The slice is the caller's.
func Levels() []string { return []string{"none", "low", "medium", "high"} }
