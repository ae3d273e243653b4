//go:build gc && !go1.27

package later

import _ "unsafe" // for go:linkname

var (
	markdown = []*task{&goldmarkUtil, &goldmarkParser}
	schema   = []*task{&googleSchema}
	yaml     = []*task{&yamlOrg}
	mcp      = []*task{&sysCPU, &asmCPU, &asmBase64, &segmentJSON, &sdkJSON, &sdkOAuth, &sdk} // each after what it uses
	ini      = []*task{&goIni}
	width    = []*task{&runeWidth}
	shell    = []*task{&shellFiles}
)

//go:linkname goldmarkUtil github.com/yuin/goldmark/util..inittask
var goldmarkUtil task

//go:linkname goldmarkParser github.com/yuin/goldmark/parser..inittask
var goldmarkParser task

//go:linkname googleSchema github.com/google/jsonschema-go/jsonschema..inittask
var googleSchema task

//go:linkname yamlOrg go.yaml.in/yaml/v4..inittask
var yamlOrg task

//go:linkname sysCPU golang.org/x/sys/cpu..inittask
var sysCPU task

//go:linkname asmCPU github.com/segmentio/asm/cpu..inittask
var asmCPU task

//go:linkname asmBase64 github.com/segmentio/asm/base64..inittask
var asmBase64 task

//go:linkname segmentJSON github.com/segmentio/encoding/json..inittask
var segmentJSON task

//go:linkname sdkJSON github.com/modelcontextprotocol/go-sdk/internal/json..inittask
var sdkJSON task

//go:linkname sdkOAuth github.com/modelcontextprotocol/go-sdk/oauthex..inittask
var sdkOAuth task

//go:linkname sdk github.com/modelcontextprotocol/go-sdk/mcp..inittask
var sdk task

//go:linkname goIni gopkg.in/ini%2ev1..inittask
var goIni task

//go:linkname runeWidth github.com/mattn/go-runewidth..inittask
var runeWidth task

//go:linkname shellFiles mvdan.cc/sh/v3/fileutil..inittask
var shellFiles task
