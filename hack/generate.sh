#!/usr/bin/env bash
# Generates deep copies, XRDs and the CRD of the function's input from the Go types.
#
#   hack/generate.sh         writes them into the repository
#   hack/generate.sh check   writes nothing, prints what differs and fails if anything does
set -euo pipefail
cd "$(dirname "$0")/.."

generate() {
  local gen=.cache/bin/controller-gen
  "$gen" object paths=./apis/v1alpha1 output:object:dir="$1/apis/v1alpha1"
  "$gen" crd paths=./apis/v1alpha1 output:crd:stdout | go run ./hack/xrdgen "$1/apis"
  "$gen" object paths=./input/v1beta1 output:object:dir="$1/input/v1beta1"
  "$gen" crd paths=./input/v1beta1 output:crd:dir="$1/package/input"
}

case "${1:-}" in
"")
  generate .
  ;;
check)
  fresh=$(mktemp -d)
  trap 'rm -rf "$fresh"' EXIT
  generate "$fresh"

  shopt -s nullglob
  stale=0
  while read -r file; do
    diff -uN --label "$file (in the repository)" --label "$file (as generated)" "$file" "$fresh/$file" || stale=1
  done < <({
    printf '%s\n' apis/*/definition.yaml package/input/*.yaml
    cd "$fresh" && find . -type f -printf '%P\n'
  } | sort -u)

  if ((stale)); then
    echo "generated files are stale: run make generate" >&2
    exit 1
  fi
  ;;
*)
  echo "usage: $0 [check]" >&2
  exit 2
  ;;
esac
