#!/usr/bin/env bash
# Lists the caller's sub-conversations. Copy it with jp_conversation_list.toml to .jp/tools.
set -euo pipefail
jp conversation ls \
  --root="{{context.conversation_id}}" \
  --hidden \
  --format=json
