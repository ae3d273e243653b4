//go:build gc && !go1.27

package later

import _ "unsafe" // for go:linkname

var (
	markdown = []*task{&goldmarkUtil, &goldmarkParser}
	schema   = []*task{&googleSchema}
	yaml     = []*task{&yamlOrg}
)

//go:linkname goldmarkUtil github.com/yuin/goldmark/util..inittask
var goldmarkUtil task

//go:linkname goldmarkParser github.com/yuin/goldmark/parser..inittask
var goldmarkParser task

//go:linkname googleSchema github.com/google/jsonschema-go/jsonschema..inittask
var googleSchema task

//go:linkname yamlOrg go.yaml.in/yaml/v4..inittask
var yamlOrg task
