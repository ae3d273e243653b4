package convstore

import "context"

// Rooms are functions of packages that import this one, for its own tests, which cannot. Those of package
// convstore_test can, and fill them in.
var Rooms struct {
	// Search looks for a text, in all conversations or some, and returns how many lines have it.
	Search func(ctx context.Context, v View, text string, ids ...ID) (int, error)
}
