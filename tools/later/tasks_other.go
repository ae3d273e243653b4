//go:build !gc || go1.27

package later

// No library is put off: it is not known how this Go notes what is initialised.
var markdown, schema, yaml, mcp, ini, width, shell []*task
