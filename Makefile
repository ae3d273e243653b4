# What a newcomer needs is Go and make: `make demo`, `make test`.

GO      ?= go
TAGS    := urfave_cli_no_docs
LDFLAGS := -s -w
BUILD   := CGO_ENABLED=0 $(GO) build -trimpath -tags $(TAGS) -ldflags '$(LDFLAGS)'
TOOLS   := $(GO) tool -modfile=.ci/tools.mod
FUZZTIME ?= 20s

# Tests that fill a bound or overwrite page after page, in one goroutine, which the race detector makes ten times
# slower. They run once, in `make test`.
AMOUNTS = TestDamagedPages|TestStaleBranch|TestStaleLeaf|TestWrongLength|TestSalvage$$|TestRescue$$|TestCrowdedBody|TestImportLongLine|TestExportCrowded|TestImageBound|TestEndlessLine|TestLarge$$|TestFloodMemory|TestHTTPLarge|TestServeHostile/(unread|kept)|TestBounds/(bytes|admitted|values|deaf$$|events|commands)

# Property tests draw the same cases in every `make`. Without it, `go test` draws others each time.
export RAPID_SEED ?= 1

PREFIX  ?= /usr/local
BIN     ?= bin/jp
SHARE    = $(DESTDIR)$(PREFIX)/share

.PHONY: all build install release demo test race lint fuzz bench generate check-extra clean interop

all: build

build: ## bin/jp, static
	$(BUILD) -o $(BIN) ./cmd/jp
	@dd if=$(BIN) of=$(BIN).new bs=67108864 2>/dev/null # in one write, see "Start" in docs/performance.md
	@chmod 755 $(BIN).new && mv $(BIN).new $(BIN)

install: build ## jp, its pages, manual and completions below PREFIX
	mkdir -p $(DESTDIR)$(PREFIX)/bin $(SHARE)/doc/jp/docs $(SHARE)/doc/jp/scripts $(SHARE)/man/man1 $(SHARE)/bash-completion/completions $(SHARE)/zsh/site-functions $(SHARE)/fish/vendor_completions.d
	install -m 755 $(BIN) $(DESTDIR)$(PREFIX)/bin/jp
	install -m 644 README.md $(SHARE)/doc/jp
	install -m 644 docs/*.md docs/*.ini $(SHARE)/doc/jp/docs
	install -m 644 scripts/jp_*.toml $(SHARE)/doc/jp/scripts
	install -m 755 scripts/jp_*.sh scripts/workflow.sh $(SHARE)/doc/jp/scripts
	$(BIN) man >$(SHARE)/man/man1/jp.1
	$(BIN) completion bash >$(SHARE)/bash-completion/completions/jp
	$(BIN) completion zsh >$(SHARE)/zsh/site-functions/_jp
	$(BIN) completion fish >$(SHARE)/fish/vendor_completions.d/jp.fish

release: ## archives, Debian packages and checksums in dist/
	./scripts/release.sh

demo: build ## the whole job, on this source tree, with scripted models
	./scripts/demo.sh

test: build ## everything that needs only Go and make
	CGO_ENABLED=0 $(GO) vet ./...
	CGO_ENABLED=0 GOOS=darwin $(GO) vet ./...
	CGO_ENABLED=0 $(GO) test -tags $(TAGS) -timeout 15m ./...
	CGO_ENABLED=0 $(GO) test -tags $(TAGS),rehearse -skip '$(AMOUNTS)' ./convstore/... ./cmd/jp/internal/agent ./cmd/jp/internal/delegate
	$(TOOLS) depguard ./...
	@out=$$(./scripts/demo.sh 2>&1) || { echo "$$out"; exit 1; }
	@echo "'make check-extra' runs the rest: the race detector (a C compiler), shell texts in bash and dash, examples of the docs (jq), completion in zsh and fish, groff, the trace page in a browser"

race: ## the packages where goroutines share state
	CGO_ENABLED=1 $(GO) test -race -short -skip '$(AMOUNTS)' -timeout 15m ./convstore/... ./tools ./cmd/jp/internal/...

lint:
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); exit 1; }
	$(TOOLS) staticcheck ./...
	$(TOOLS) errcheck -ignoretests -exclude .ci/errcheck.txt ./...

fuzz: ## every fuzz target for FUZZTIME
	FUZZTIME=$(FUZZTIME) ./scripts/fuzz.sh

bench:
	./scripts/bench.sh

generate:
	$(GO) generate ./...

interop: ## jp mcp serve and jp acp against official clients, from npm, and our own
	./scripts/interop.sh

check-extra: ## what needs more than Go and make
	./scripts/check-extra.sh

clean:
	rm -rf bin dist
